"""The clock that leases go by."""

from __future__ import annotations

import time

__all__ = ["now"]


def now() -> float:
    """Seconds on a clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
