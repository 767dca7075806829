"""Pauses between attempts that fail: longer from one to the next."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["Backoff", "pause_after"]

#: Share of each pause that is left to chance, where nothing else is said.
_JITTER: Final = 0.5
#: Times that a pause is doubled, at most: it is longer than any limit then, and no number that is too large.
_DOUBLINGS: Final = 64


class Backoff:
    """Exponential backoff: `first` seconds, then `factor` times as long from pause to pause, at most `most`.

    Args:
        jitter: share of each pause that is left to chance, so that those who failed together do not come back
            together: 0.5 gives between half of the pause and all of it.
    """

    __slots__ = ("_attempts", "_factor", "_first", "_jitter", "_most", "_pause")

    def __init__(self, first: float, most: float, *, factor: float = 2.0, jitter: float = _JITTER) -> None:
        self._first = first
        self._most = most
        self._factor = factor
        self._jitter = jitter
        self._pause = first
        self._attempts = 0

    @property
    def attempts(self) -> int:
        """How many pauses were requested since the beginning or the last `reset`."""
        return self._attempts

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        pause = min(self._pause, self._most)
        self._pause = min(self._pause * self._factor, self._most)
        self._attempts += 1
        return pause * random.uniform(1.0 - self._jitter, 1.0)

    def reset(self) -> None:
        """An attempt succeeded: the next pause is the first one again."""
        self._pause = self._first
        self._attempts = 0


def pause_after(attempts: int, first: float, most: float) -> float:
    """What `Backoff.next` gives after so many `attempts`, for things that are many and count their own."""
    pause = min(first * 2.0 ** min(attempts, _DOUBLINGS), most)
    return pause * random.uniform(1.0 - _JITTER, 1.0)
