"""Limits how often a manifest is written: with 10,000 queues it has megabytes and changes 10,000 times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["ThrottledWriter"]

#: Seconds between two writes at least: what a crash in between loses is repeated in about that time.
_SECONDS: Final = 1.0
#: Share of the time that writes may take, however large the file becomes.
_SHARE: Final = 0.05


class ThrottledWriter:
    """Calls `write` at most once a second, and for at most a twentieth of the time.

    Outcomes that a crash loses cost little: the next run repeats their work, and finds it done.
    """

    def __init__(self, write: Callable[[], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._due = clock() + _SECONDS
        self._waits = False

    def changed(self) -> None:
        """Notes a change; writes now, or at a later change."""
        self._waits = True
        if self._clock() >= self._due:
            self.close()

    def close(self) -> None:
        """Writes changes that are not written yet."""
        if self._waits:
            began = self._clock()
            self._write()
            self._waits = False
            now = self._clock()
            self._due = now + max(_SECONDS, (now - began) / _SHARE)
