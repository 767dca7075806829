"""How fast each topic is copied now, and how its lag changes: from samples of the last ten seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from math import inf
from typing import Final, NamedTuple

__all__ = ["Key", "LatestProgress", "Trend"]

#: Seconds of which samples are kept, and seconds that two must be apart to tell anything: workers publish their
#: progress every two.
_WINDOW: Final = 10.0
_APART: Final = 4.0
#: Seconds between two samples at least, and topics that make it a second more: to add up thousands takes its time.
_INTERVAL: Final = 1.0
_TOPICS_A_SECOND: Final = 2500
#: Seconds for which a count may be below its highest: while tasks change hands, nobody tells those of some queues.
_LOWER: Final = 60.0

#: A topic of a connector.
Key = tuple[str, str]


class Trend(NamedTuple):
    """How a topic has done lately, per second: messages that were copied, and by how many its lag has grown."""

    rate: float
    growth: float


class _Count(NamedTuple):
    highest: float
    at: float


class LatestProgress:
    """Samples of those topics whose connectors run; one that was paused starts over."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[Key, tuple[float, float]]]] = deque()
        self._counts: dict[Key, _Count] = {}

    def due(self, at: float) -> bool:
        """Whether it is time for another sample."""
        if not self._samples:
            return True
        last, topics = self._samples[-1]
        return not 0 <= at - last < _INTERVAL + len(topics) // _TOPICS_A_SECOND

    def add(self, at: float, topics: Mapping[Key, tuple[float, float]], running: Collection[str]) -> None:
        """Adds a sample.

        Args:
            at: seconds since the epoch.
            topics: the lag of each, and how many messages were copied since its route began.
            running: the connectors that copy.
        """
        if self._samples and at <= self._samples[-1][0]:  # the machine's clock was set back
            self._samples.clear()
            self._counts.clear()
        known = {
            key: each for key, each in topics.items() if key[0] in running and self._is_whole(key, at, each[1])
        }
        self._counts = {key: count for key, count in self._counts.items() if at - count.at < _LOWER}
        self._samples.append((at, known))
        while len(self._samples) > 2 and at - self._samples[0][0] > _WINDOW:
            self._samples.popleft()

    def _is_whole(self, key: Key, at: float, copied: float) -> bool:
        """Whether all queues are in a count; after a minute a lower one is of a topic that has started over."""
        count = self._counts.get(key, _Count(-inf, -inf))
        if copied < count.highest and at - count.at < _LOWER:
            return False
        self._counts[key] = _Count(copied, at)
        return True

    def trend(self, key: Key) -> Trend | None:
        """How a topic has done since it is in all samples; None where they say nothing yet."""
        newest: tuple[float, float, float] | None = None
        oldest = newest
        for at, topics in reversed(self._samples):
            if key not in topics:
                if newest is None:
                    return None
                break
            oldest = (at, *topics[key])
            newest = newest or oldest
        if newest is None or oldest is None or newest[0] - oldest[0] < _APART:
            return None
        elapsed = newest[0] - oldest[0]
        rate, growth = newest[2] - oldest[2], newest[1] - oldest[1]
        return Trend(max(0.0, rate) / elapsed, growth / elapsed)
