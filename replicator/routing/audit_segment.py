"""A segment of the audit trail: copies that follow one another at the target, and the checksum of what was sent.

The checksum is that of the bytes as they were sent, so nothing has to be decoded on either side. It goes on from
segment to segment, so that segments that follow one another can become one, and be read again as one.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from replicator.routing.offset_map import OffsetMap
from replicator.routing.packing import Pack

__all__ = ["SEGMENT", "Difference", "Segment", "header_sum", "segments_found"]

#: Messages of a segment, at most but for those of one batch; and bytes.
SEGMENT: Final = 2048
_BYTES: Final = 16 * 1024 * 1024
#: Messages that a pull brings, as a budget reckons.
_PULL: Final = 32


class Difference(NamedTuple):
    """A message that is not at the target as it was sent.

    Kinds are those of `verify`, and `changed`: bytes of a segment, of which the source has no message any more. An
    offset is None if that side has no such message.
    """

    kind: str
    source: int | None
    target: int | None
    detail: str = ""


class Segment:
    """Copies at target offsets [start, end), of messages of source offsets [source, source_end).

    `checked` says whether its checksum is known: `before` is what it goes on from, `crc` where it ends, and
    `headers` the sum of what a batch has once. Without, the segment was `found` at the target, or was sent in a
    form that a broker changes, and is compared with the source. `since` is when it was sent, or read back last,
    in seconds of a clock that only grows; it is to be read at `due`, after so many `attempts`, at some of which
    the broker failed, and which did not show all of it `unshown` times since it could be reached. `beyond` target
    offsets after it are not copies in their place: where it was found, they are read.
    """

    __slots__ = (
        "attempts",
        "before",
        "beyond",
        "checked",
        "crc",
        "done",
        "dropped",
        "due",
        "end",
        "failures",
        "found",
        "headers",
        "reading",
        "sampled",
        "since",
        "size",
        "source",
        "source_end",
        "start",
        "unshown",
    )

    def __init__(self, source: int, start: int, *, since: float, checked: bool, sampled: bool, before: int) -> None:
        self.source = self.source_end = source
        self.start = self.end = start
        self.since = since
        self.checked = checked
        self.sampled = sampled
        self.before = self.crc = before
        self.headers = 0
        self.size = 0
        self.beyond = 0
        self.due = 0.0
        self.attempts = 0
        self.unshown = 0
        self.failures = 0
        self.found = self.reading = self.done = self.dropped = False

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def pulls(self) -> int:
        """Pulls that it takes to read it back."""
        return -(-len(self) // _PULL)

    @property
    def is_full(self) -> bool:
        return len(self) >= SEGMENT or self.size >= _BYTES

    def add(self, packs: Sequence[Pack], position: int) -> None:
        """Appends what was sent; `position` is the source offset before which all is settled then."""
        self.end += sum(map(len, packs))
        self.source_end = position
        if not (self.sampled and self.checked):
            return
        crc = self.crc
        for pack in packs:
            crc = zlib.crc32(pack.data, crc)
            self.headers += header_sum(len(pack), pack.sys_flag, pack.reconsume_times)
            self.size += len(pack.data)
        self.crc = crc

    def is_followed_by(self, other: Segment) -> bool:
        """Whether both can become one."""
        return (
            other.checked
            and self.end == other.start
            and self.crc == other.before
            and len(self) + len(other) <= SEGMENT
            and self.size + other.size <= _BYTES
        )

    def extend(self, other: Segment) -> None:
        """Takes what follows."""
        self.source_end, self.end, self.crc = other.source_end, other.end, other.crc
        self.headers += other.headers
        self.size += other.size


def header_sum(count: int, sys_flag: int, reconsume_times: int) -> int:
    """What `count` messages that are alike add to the `headers` of their segment."""
    return count * (sys_flag * 65_537 + reconsume_times + 1)


def segments_found(offsets: OffsetMap, begin: int, now: float) -> list[Segment]:
    """What `offsets` has from the source offset `begin` on."""
    made: list[Segment] = []
    for run in offsets:
        low, stop = max(run.source, begin), run.source + run.length
        while low < stop:
            target = run.target + low - run.source
            if not made or made[-1].end != target or len(made[-1]) >= SEGMENT:
                source = made[-1].source_end if made else begin
                if made:
                    made[-1].beyond = max(0, target - made[-1].end)
                made.append(Segment(source, target, since=now, checked=False, sampled=True, before=0))
            segment = made[-1]
            segment.found = True
            length = min(SEGMENT - len(segment), stop - low)
            segment.end += length
            low = segment.source_end = low + length
    return made
