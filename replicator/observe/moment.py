"""A time of day, in words, whatever others say that it is."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["moment"]

#: The last second of the year 9999: calendars end there.
_LAST: Final = 253_402_300_799


def moment(at: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """`2026-11-25 10:00:00 UTC`, of seconds since the epoch; those that no calendar has as what they are."""
    return time.strftime(form, time.gmtime(at)) if 0 <= at <= _LAST else f"{at:.4g} s after 1970"
