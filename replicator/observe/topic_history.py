"""Lag and rate of each topic over the last hours, in memory, so that lines can be drawn without Prometheus."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from itertools import repeat
from math import inf, isnan, nan
from operator import add, truediv
from typing import Final, NamedTuple

from replicator.observe.latest_progress import Key, LatestProgress

__all__ = ["Point", "TopicHistory"]

#: Seconds between two points, and seconds for which they are kept.
_INTERVAL: Final = 10.0
_SPAN: Final = 3 * 3600.0
#: Points of all topics together; one takes 8 bytes. 10,000 topics have one point each 80 seconds.
_MOST: Final = 2_000_000
#: Points at which a count may be below its highest: while tasks change hands, nobody tells those of some queues.
_LOWER: Final = 6


class Point(NamedTuple):
    """One topic at `at`, in seconds since the epoch; `rate` is in messages per second, nan: not known."""

    at: float
    lag: float
    rate: float


class _Line:
    """The points of one topic, at the times of all."""

    __slots__ = ("copied", "copied_at", "highest", "lag", "lower", "rate")

    def __init__(self, missing: int) -> None:
        self.lag = array("f", [nan]) * missing
        self.rate = array("f", [nan]) * missing
        self.copied = nan
        self.copied_at = nan
        #: The highest count, and for how many points the count has been below it.
        self.highest = nan
        self.lower = 0

    def add(self, at: float, lag: float, copied: float) -> None:
        elapsed = at - self.copied_at
        is_lower = copied < self.highest and self.lower < _LOWER  # later it has started over, or some is lost
        # Neither what is missing from a count nor its return was copied between two points.
        unknown = is_lower or self.lower or isnan(elapsed) or elapsed <= 0
        self.rate.append(nan if unknown else (copied - self.copied) / elapsed)
        self.lag.append(lag)
        self.lower = self.lower + 1 if is_lower else 0
        if not is_lower:
            self.highest = copied
        self.copied, self.copied_at = copied, at

    def add_nothing(self) -> None:
        self.lag.append(nan)
        self.rate.append(nan)

    def thin(self) -> None:
        """Makes one point of two: the larger lag, so that no peak is lost, and the mean rate.

        What is not known of the newer one is not known of both. There are millions: no Python runs for each.
        """
        self.lag = array("f", map(max, *_halves(self.lag)))
        self.rate = array("f", map(truediv, map(add, *_halves(self.rate)), repeat(2)))


class TopicHistory:
    """A bounded line per topic; the more topics there are, the further its points are apart.

    Args:
        interval: seconds between two points, as long as they are not too many.
        span: seconds for which points are kept.
        most: points of all topics together.
    """

    def __init__(self, *, interval: float = _INTERVAL, span: float = _SPAN, most: int = _MOST) -> None:
        self.interval = interval
        self._span = span
        self._most = most
        self._times = array("d")
        self._lines: dict[Key, _Line] = {}
        #: What is too short for a line, and tells how fast topics are now.
        self.latest = LatestProgress()

    def due(self, at: float) -> bool:
        """Whether it is time for another point."""
        return not self._times or not 0 <= at - self._times[-1] < self.interval

    def add(self, at: float, topics: Mapping[Key, tuple[float, float]]) -> None:
        """Adds a point to each line.

        Args:
            at: seconds since the epoch.
            topics: the lag of each, and how many messages were copied since its route began.
        """
        if self._times and at <= self._times[-1]:  # the machine's clock was set back
            self._times, self._lines = array("d"), {}
        known = len(self._times)
        self._times.append(at)
        for key, (lag, copied) in topics.items():
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = _Line(known)
            line.add(at, lag, copied)
        for line in self._lines.values():
            if len(line.lag) == known:
                line.add_nothing()
        self._forget(at - self._span)
        while len(self._lines) * self._span / self.interval > self._most:
            self._thin()

    def line(self, key: Key) -> list[Point]:
        """The points of one topic, oldest first."""
        line = self._lines.get(key)
        if line is None:
            return []
        points = map(Point, self._times, line.lag, line.rate)
        return [point for point in points if not isnan(point.lag)]

    @property
    def begun_at(self) -> float:
        """When the oldest point was taken, in seconds since the epoch; infinite where there is none."""
        return self._times[0] if self._times else inf

    def _forget(self, before: float) -> None:
        old = bisect_right(self._times, before)
        if not old:
            return
        del self._times[:old]
        for key, line in list(self._lines.items()):
            del line.lag[:old]
            del line.rate[:old]
            if line.copied_at <= before:
                del self._lines[key]

    def _thin(self) -> None:
        self.interval *= 2
        self._times = _halves(self._times)[0]
        for line in self._lines.values():
            line.thin()


def _halves(values: array[float]) -> tuple[array[float], array[float]]:
    """The newer and the older ones of pairs, counted from the newest; the oldest one may be its own other."""
    if len(values) % 2:
        values = values[:1] + values
    return values[1::2], values[::2]
