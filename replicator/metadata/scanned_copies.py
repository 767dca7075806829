"""What was read from target queues before their offset maps, kept from one look at all groups to the next.

The oldest run of an offset map may move with each batch. Then only what it has left behind since is read.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from replicator.client.endpoint import Endpoint
from replicator.metadata.offset_map_scan import offset_after_copy, scan_offset_map
from replicator.metadata.offsets import CopiedQueue, GroupQueue
from replicator.metadata.remembered import Remembered
from replicator.routing.offset_map import OffsetMap
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue

__all__ = ["ScannedCopies"]

#: Messages of a target queue that are read at a time to make its offset map longer.
_MOST: Final = 200_000

# By source and target queue, since queues may move to another target; the group comes first.
_Place = tuple[str, str, Queue, Queue]


@dataclass(slots=True)
class _Scan:
    """`copies` are those in [start, end) of a target queue; `stop` is where its offset map began."""

    start: int
    end: int
    stop: int
    copies: OffsetMap


class _Found(NamedTuple):
    stop: int
    in_order: bool
    offset: int


class ScannedCopies:
    """What target queues have of the cluster `source`. Errors of all methods are those of `scan_offset_map`."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._scans = Remembered[tuple[_Place, int], _Scan]()
        self._found = Remembered[tuple[_Place, int, int], _Found]()

    def __len__(self) -> int:
        """How much is kept."""
        return len(self._scans) + len(self._found)

    async def before(self, broker: Endpoint, place: GroupQueue, start: int, stop: int) -> tuple[OffsetMap, int]:
        """The map of the copies in [start, stop), at whose end the offset map begins, and up to where it goes: long
        ranges are read a part at a time. It may begin before `start`.
        """
        end = min(stop, start + _MOST)
        key = _key("" if end == stop else place.group, place), _age(place.queue, stop)
        known = self._scans.get(key)
        # Where the offset map begins earlier than before, the target queue, or its map, is another one.
        if known is None or known.stop > stop or not known.start <= start <= known.end:
            known = _Scan(start, start, stop, _endless())
        if known.end < end:
            more = await self._scan(broker, place.queue, known.end, end)
            known = _extended(known, more, end)
        known.stop = stop
        self._scans[key] = known
        return known.copies, known.end

    async def offset_behind(
        self, broker: Endpoint, place: GroupQueue, source: int, start: int, stop: int, *, in_order: bool = False
    ) -> int:
        """The target offset behind the last copy in [start, stop) of a message before `source`.

        Args:
            in_order: from `stop` on there are only copies of messages from `source` on, so it makes no difference
                when `stop` moves on.
        """
        queue = place.queue
        key = (_key(place.group, place), source, start)
        known = self._found.get(key)
        if known is not None:
            moved_on = in_order and known.in_order and known.stop < stop
            if known.stop == stop or moved_on:
                return known.offset
        offset = await offset_after_copy(
            broker,
            queue.target_topic,
            queue.target.queue_id,
            source,
            start=start,
            stop=stop,
            mine=lambda found: self._is_of(queue, found),
        )
        self._found[key] = _Found(stop, in_order, offset)
        return offset

    def forget_unused(self, *, away: Collection[str] = ()) -> None:
        """A look at all groups has ended: what it did not ask for is of groups and queues that are gone, or of
        places that groups have left.

        Args:
            away: brokers of either side whose queues may have been left out; long ranges that were read of these
                are kept.
        """
        self._found.forget_unused()  # quickly found again; and each place of a group that moves on is kept
        self._scans.forget_unused(lambda key: any(queue.broker in away for queue in key[0][2:]))

    async def _scan(self, broker: Endpoint, queue: CopiedQueue, start: int, stop: int) -> OffsetMap:
        return await scan_offset_map(
            broker,
            queue.target_topic,
            queue.target.queue_id,
            start=start,
            stop=stop,
            mine=lambda found: self._is_of(queue, found),
        )

    def _is_of(self, queue: CopiedQueue, found: Provenance) -> bool:
        return found.cluster == self._source and Queue(found.broker, found.queue_id) == queue.source


def _key(group: str, place: GroupQueue) -> _Place:
    return group, place.topic, place.queue.source, place.queue.target


def _age(queue: CopiedQueue, stop: int) -> int:
    """Tells copies of the source queue as it is now, by the target offset where they begin (0: all are such), from
    those of what it was before: -1. The two are never joined.
    """
    if stop <= queue.floor:
        return -1
    return queue.floor if queue.floor > queue.oldest else 0


def _endless() -> OffsetMap:
    return OffsetMap(most=sys.maxsize)


def _extended(known: _Scan, more: OffsetMap, end: int) -> _Scan:
    """`known` with what was read behind it, up to `end`; without its beginning once no group can be there."""
    last, first = known.copies.last, more.first
    copies = known.copies
    if more.rewound or (last is not None and first is not None and first.source <= last[0]):
        copies = _endless()  # the source queue was deleted and recreated
    for run in more:
        copies.add(*run)
    start = known.start
    if end - start > 2 * _MOST:
        start = end - _MOST
        kept, copies = copies, _endless()
        for run in kept:
            if run.target + run.length > start:
                copies.add(*run)
    return _Scan(start, end, known.stop, copies)
