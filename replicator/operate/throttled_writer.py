"""How often a manifest is written: one of 10,000 queues has megabytes, and an outcome for each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["ThrottledWriter"]

_SECONDS: Final = 1.0
_SHARE: Final = 0.05


class ThrottledWriter:
    """Calls `write` a second after the last time, at most a twentieth of the time.

    What a crash keeps from being written is done again, and found to be done.
    """

    def __init__(self, write: Callable[[], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._due = clock() + _SECONDS
        self._waits = False

    def changed(self) -> None:
        """Writes, now or at a later change."""
        self._waits = True
        if self._clock() >= self._due:
            self.close()

    def close(self) -> None:
        """Writes what is not written yet."""
        if self._waits:
            began = self._clock()
            self._write()
            self._waits = False
            now = self._clock()
            self._due = now + max(_SECONDS, (now - began) / _SHARE)
