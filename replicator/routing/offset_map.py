"""The exact map between the offsets of one source queue and its target queue.

Every acknowledged run of messages is an interval (source start, target start, length); intervals that
continue each other are merged, so a queue without gaps is a single one. Offsets are translated exactly
or not at all, never estimated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

__all__ = ["MAX_INTERVALS", "Interval", "OffsetMap"]

#: Intervals kept per queue. A filter or a busy local producer makes many; the oldest are dropped, and
#: what they said can be read from the target's messages, whose provenance is the map itself.
MAX_INTERVALS: Final = 10_000


class Interval(NamedTuple):
    """`length` messages: source + i was stored at target + i."""

    source: int
    target: int
    length: int


class OffsetMap:
    """Both offsets grow from interval to interval; beyond `most` of them the oldest are dropped.

    `rewound` is how often what came last was forgotten.
    """

    __slots__ = ("_length", "_most", "_sources", "_targets", "rewound")

    def __init__(self, intervals: Iterable[Interval] = (), *, most: int = MAX_INTERVALS) -> None:
        self.rewound = 0
        self._most = most
        self._sources: list[int] = []
        self._targets: list[int] = []
        self._length: list[int] = []
        for interval in intervals:
            self.add(*interval)

    def add(self, source: int, target: int, length: int) -> None:
        """Appends a run.

        Raises:
            ValueError: it lies before what is known, or is empty: a bug of the caller.
        """
        sources, targets, lengths = self._sources, self._targets, self._length
        if length < 1 or source < 0 or target < 0:
            raise ValueError(f"no run: {source}, {target}, {length}")
        if sources:
            source_end = sources[-1] + lengths[-1]
            target_end = targets[-1] + lengths[-1]
            if source < source_end or target < target_end:
                raise ValueError(f"{source} -> {target} lies before {source_end} -> {target_end}")
            if source == source_end and target == target_end:
                lengths[-1] += length
                return
        sources.append(source)
        targets.append(target)
        lengths.append(length)
        if len(sources) > self._most:
            del sources[0], targets[0], lengths[0]

    def since(self, source: int) -> Iterator[Interval]:
        """The runs of copies of messages at the source offset `source` or after it."""
        for i in range(max(0, bisect_right(self._sources, source) - 1), len(self._sources)):
            gone = max(0, source - self._sources[i])
            if gone < self._length[i]:
                yield Interval(self._sources[i] + gone, self._targets[i] + gone, self._length[i] - gone)

    def count_from(self, source: int) -> int:
        """Copies of messages at the source offset `source` or after it."""
        return sum(max(0, run.source + run.length - max(run.source, source)) for run in self)

    def cut(self, source: int) -> None:
        """Forgets what was copied from the source offset `source` on."""
        self.rewound += 1
        at = bisect_left(self._sources, source)
        if at:
            self._length[at - 1] = min(self._length[at - 1], source - self._sources[at - 1])
        del self._sources[at:], self._targets[at:], self._length[at:]

    def clear(self) -> None:
        """Forgets everything: the source's or the target's offsets have started over."""
        self.rewound += 1
        self._sources.clear()
        self._targets.clear()
        self._length.clear()

    @property
    def last(self) -> tuple[int, int] | None:
        """The last message of which both offsets are known: (source, target)."""
        if not self._sources:
            return None
        return self._sources[-1] + self._length[-1] - 1, self._targets[-1] + self._length[-1] - 1

    @property
    def first(self) -> Interval | None:
        """The oldest run that is known."""
        return Interval(self._sources[0], self._targets[0], self._length[0]) if self._sources else None

    def run_before(self, source: int) -> Interval | None:
        """The last run that begins before the source offset `source`."""
        at = bisect_left(self._sources, source) - 1
        return None if at < 0 else Interval(self._sources[at], self._targets[at], self._length[at])

    def reach(self, start: int, stop: int) -> int:
        """How far one gets in the target queue from `start` towards `stop` over nothing but copies."""
        at = start
        for i in range(max(0, bisect_right(self._targets, start) - 1), len(self._targets)):
            if self._targets[i] > at or at >= stop:
                break
            at = max(at, self._targets[i] + self._length[i])
        return min(at, stop)

    def count(self, start: int, stop: int) -> int:
        """Copies at target offsets in [start, stop)."""
        found = 0
        for i in range(max(0, bisect_right(self._targets, start) - 1), bisect_left(self._targets, stop)):
            end = self._targets[i] + self._length[i]
            found += max(0, min(stop, end) - max(start, self._targets[i]))
        return found

    def followed_by(self, newer: OffsetMap) -> OffsetMap:
        """Both in one; of ours only what lies before `newer`."""
        limit = newer.first
        ours = [
            run if limit is None else run._replace(length=min(run.length, limit.source - run.source))
            for run in self
            if limit is None or run.source < limit.source
        ]
        return OffsetMap([*ours, *newer], most=len(ours) + len(newer) + 1)

    def target_of(self, source: int) -> int | None:
        """The target offset of the message at `source`, if it was copied."""
        return _find(self._sources, self._targets, self._length, source)

    def source_of(self, target: int) -> int | None:
        """The source offset of the message at `target`, if it is a copy."""
        return _find(self._targets, self._sources, self._length, target)

    def __iter__(self) -> Iterator[Interval]:
        return map(Interval, self._sources, self._targets, self._length)

    def __len__(self) -> int:
        return len(self._sources)


def _find(keys: list[int], values: list[int], lengths: list[int], key: int) -> int | None:
    at = bisect_right(keys, key) - 1
    if at < 0 or key >= keys[at] + lengths[at]:
        return None
    return values[at] + key - keys[at]
