"""How long a queue has waited, and for whom: who is slow, the source or the target."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["SOURCE", "TARGET", "WaitTimer"]

SOURCE: Final = 0
TARGET: Final = 1


class WaitTimer:
    """Seconds spent waiting for `SOURCE` and for `TARGET`, including a wait that is under way.

    Args:
        source, target: seconds that were waited before.
    """

    __slots__ = ("_seconds", "_since", "_whom")

    def __init__(self, source: float = 0.0, target: float = 0.0) -> None:
        self._seconds = [source, target]
        self._whom = -1
        self._since = 0.0

    def begin(self, whom: int) -> None:
        """From now on the wait counts for `whom`, whatever it counted for before."""
        now = time.monotonic()
        if self._whom >= 0:
            self._seconds[self._whom] += now - self._since
        self._whom, self._since = whom, now

    def end(self) -> None:
        """The wait is over."""
        if self._whom >= 0:
            self._seconds[self._whom] += time.monotonic() - self._since
            self._whom = -1

    def seconds(self, whom: int) -> float:
        """Time waited for `whom` until now."""
        return self._seconds[whom] + (time.monotonic() - self._since if self._whom == whom else 0.0)
