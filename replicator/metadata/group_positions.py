"""Where each group is in each copied queue, at both sides; what the offset map does not say is looked up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from replicator.client.brokers import max_offset, min_offset
from replicator.client.cluster import Cluster
from replicator.client.offsets import OffsetTable, read_offsets
from replicator.client.pull import message_at
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import ClientError
from replicator.metadata.clusters import Tables
from replicator.metadata.groups import GroupSelector
from replicator.metadata.offset_map_scan import offset_after_copy, scan_offset_map
from replicator.metadata.offsets import CopiedQueue, GroupQueue
from replicator.metadata.pop_checkpoints import Consumption, InFlight
from replicator.metadata.pop_log import PopLog
from replicator.routing import provenance
from replicator.routing.offset_map import OffsetMap
from replicator.routing.options import Identity
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue

__all__ = ["GroupPositions", "QueueLookup"]

#: Messages of a target queue that are read at a time to make its offset map longer.
_MOST: Final = 200_000

#: Seconds for which the oldest offset of a target queue is believed; it only ever grows.
_FLOOR_SECONDS: Final = 60.0

#: What is known of a source queue, given its topic; None when its copy has not begun.
QueueLookup = Callable[[str, Queue], CopiedQueue | None]


class GroupPositions:
    """Looks at the consumer offsets of both clusters."""

    def __init__(self, source: Cluster, target: Cluster, identity: Identity, selector: GroupSelector) -> None:
        self._source = source
        self._target = target
        self._identity = identity
        self._selector = selector
        self.consumed = Tables(source, lambda broker, known: read_offsets(broker, known=known), masters_only=False)
        self.there = Tables(target, lambda broker, known: read_offsets(broker, known=known), masters_only=True)
        self._pop = PopLog(source)
        self._floors: dict[tuple[str, Queue], tuple[float, int]] = {}
        # By source and target queue, since queues may move to another target.
        self._older: dict[tuple[str, str, Queue, Queue], tuple[int, int, int, OffsetMap]] = {}
        self._found: dict[tuple[str, str, Queue, Queue], tuple[int, int, int, int]] = {}
        self._returned: dict[tuple[str, str, Queue, Queue], tuple[int, int | None]] = {}
        self._unresponsive = UnresponsiveBrokers({})
        self.failures: dict[str, str] = {}
        #: The offsets of source brokers that were in step with what POP consumers held.
        self._known: Mapping[str, OffsetTable] = {}
        #: Why it is not known what POP consumers hold.
        self.problems: list[str] = []

    async def look(self, copied: QueueLookup) -> list[GroupQueue]:
        """All places of selected groups in the queues that are copied.

        Those about which a broker cannot be asked are left out; `failures` says which brokers those are.
        """
        consumed = await self.consumed.refresh()
        there = await self.there.refresh()
        held = await self._pop.look(consumed)
        self.problems = sorted(self._pop.problems.values())
        self.failures = self._pop.behind | self.consumed.failures | self.there.failures
        self._unresponsive = UnresponsiveBrokers(self.consumed.failures)
        found = []
        for place in self._raw(copied, self._explained(consumed), there, held):
            try:
                found.append(await self._complete(place))
            except ClientError as error:
                self.failures[place.queue.target.broker] = str(error)
        return found

    def _explained(self, consumed: Mapping[str, OffsetTable]) -> Mapping[str, OffsetTable]:
        """The offsets of which it is known what POP consumers hold before them.

        A source broker that is away keeps those of which that was known last: what was delivered later may never
        have been acknowledged.
        """
        now = {name: table for name, table in consumed.items() if name not in self._pop.behind}
        self._known = {name: table for name, table in self._known.items() if name in consumed} | now
        away = self.consumed.failures
        return {name: table for name, table in self._known.items() if name in now or name in away}

    def _raw(
        self,
        copied: QueueLookup,
        consumed: Mapping[str, OffsetTable],
        there: Mapping[str, OffsetTable],
        held: Mapping[Consumption, InFlight],
    ) -> Iterable[GroupQueue]:
        for broker, table in consumed.items():
            for (group, topic), offsets in table.offsets.items():
                if not self._selector.selects(group):
                    continue
                for queue_id, offset in offsets.items():
                    queue = copied(topic, Queue(broker, queue_id))
                    if queue is None or queue.target.broker not in there:
                        continue
                    known = there[queue.target.broker].offsets.get((group, queue.target_topic), {})
                    target = known.get(queue.target.queue_id)
                    in_flight = held.get(Consumption(group, topic, broker, queue_id))
                    yield _before(in_flight, GroupQueue(group, topic, queue, offset, target))

    async def _complete(self, place: GroupQueue) -> GroupQueue:
        """With what the offset map does not say: it is read from the copies themselves."""
        queue = place.queue
        oldest = await self._oldest(queue)
        queue = replace(queue, floor=max(queue.floor, oldest), oldest=oldest)
        place = replace(place, queue=queue, returned=await self._back(place))
        first = queue.offsets.first
        begin = await self._end(queue) if first is None else first.target
        if await self._is_before_reset(place, begin):
            return await self._before_reset(place)
        if queue.floor >= begin:
            return place  # nothing is older than the map
        if place.target is not None and place.target < begin:
            queue = await self._deeper(place, max(place.target, queue.floor), begin)
            place = replace(place, queue=queue)
            if queue.unread[0] >= queue.unread[1]:
                first = queue.offsets.first
        if first is None or place.source <= first.source:
            stop = begin if first is None else first.target
            place = replace(place, found=await self._find(place, place.source, queue.floor, stop))
        return place

    async def _is_before_reset(self, place: GroupQueue, begin: int) -> bool:
        """Whether the group is before all that was copied since the source queue was truncated or recreated.

        In a recreated queue it is not, unless its first messages were never copied.
        """
        queue, first = place.queue, place.queue.offsets.first
        if queue.floor <= queue.oldest:
            return False
        if first is None:
            return place.source < queue.position
        if place.source >= first.source or queue.floor >= begin:
            return place.source < first.source
        if await self._find(place, place.source, queue.floor, begin) > queue.floor:
            return False  # there are copies of what it has consumed since then; that is looked up for it anyway
        return await self._find(place, place.source + 1, queue.floor, begin) == queue.floor

    async def _before_reset(self, place: GroupQueue) -> GroupQueue:
        """The group's place among what was copied before: the source queue still has that, up to where it parts."""
        queue = place.queue
        found = await self._find(place, place.source, queue.oldest, queue.floor)
        here = found if place.target is None else min(found, max(place.target, queue.oldest))
        return replace(place, found=found, queue=await self._deeper(place, here, queue.floor))

    async def _oldest(self, queue: CopiedQueue) -> int:
        key = (queue.target_topic, queue.target)
        at, floor = self._floors.get(key, (float("-inf"), 0))
        # It only ever grows, unless the topic was recreated; then nothing is copied there yet.
        if time.monotonic() - at > _FLOOR_SECONDS or (floor and queue.offsets.first is None):
            broker = self._target.master(queue.target.broker)
            floor = await min_offset(broker, queue.target_topic, queue.target.queue_id)
            self._floors[key] = (time.monotonic(), floor)
        return floor

    async def _end(self, queue: CopiedQueue) -> int:
        broker = self._target.master(queue.target.broker)
        return await max_offset(broker, queue.target_topic, queue.target.queue_id)

    def _mine(self, queue: CopiedQueue, found: Provenance) -> bool:
        return found.cluster == self._identity.source and Queue(found.broker, found.queue_id) == queue.source

    async def _deeper(self, place: GroupQueue, start: int, stop: int) -> CopiedQueue:
        """The queue with what its target has in [start, stop), before the offset map, in that; a part at a time."""
        queue = place.queue
        end = min(stop, start + _MOST)
        key = ("" if end == stop else place.group, place.topic, queue.source, queue.target)
        known = self._older.get(key)
        if known is None or known[2] != stop or not known[0] <= start < known[1]:
            found = await scan_offset_map(
                self._target.master(queue.target.broker),
                queue.target_topic,
                queue.target.queue_id,
                start=start,
                stop=end,
                mine=lambda found: self._mine(queue, found),
            )
            known = self._older[key] = (start, end, stop, found)
        return replace(queue, offsets=known[3].followed_by(queue.offsets), unread=(known[1], stop))

    async def _find(self, place: GroupQueue, source: int, start: int, stop: int) -> int:
        """The target offset behind the last copy in [start, stop) of a message before `source`."""
        queue = place.queue
        key = (place.group, place.topic, queue.source, queue.target)
        known = self._found.get(key)
        if known is None or known[:3] != (source, start, stop):
            offset = await offset_after_copy(
                self._target.master(queue.target.broker),
                queue.target_topic,
                queue.target.queue_id,
                source,
                start=start,
                stop=stop,
                mine=lambda found: self._mine(queue, found),
            )
            known = self._found[key] = (source, start, stop, offset)
        return known[3]

    async def _back(self, place: GroupQueue) -> int | None:
        """The target offset behind the last message before the group's place that was born at the target."""
        run = place.queue.offsets.run_before(place.source)
        at = place.source - 1 if run is None or place.source > run.source + run.length else run.source - 1
        if at < 0:
            return None
        key = (place.group, place.topic, place.queue.source, place.queue.target)
        known = self._returned.get(key)
        if known is None or known[0] != at:
            try:
                found = await self._unresponsive.ask(
                    place.queue.source.broker, partial(self._born_there, place, at)
                )
                known = self._returned[key] = (at, found)
            except ClientError:
                return None  # the source is away: the group is taken no further than the map says
        return known[1]

    async def _born_there(self, place: GroupQueue, at: int) -> int | None:
        broker, queue_id = place.queue.source
        message = await message_at(self._source.reader(broker), place.topic, queue_id, at)
        found = None if message is None else provenance.of(message, place.topic)
        if found is None or found.cluster != self._identity.target:
            return None
        return found.offset + 1 if Queue(found.broker, found.queue_id) == place.queue.target else None


def _before(in_flight: InFlight | None, place: GroupQueue) -> GroupQueue:
    """The place before the first message that is in flight: a broker moves the offset when it delivers one."""
    if in_flight is None or in_flight.first >= place.source:
        return place
    passed = place.source - in_flight.first - in_flight.messages
    return replace(place, source=in_flight.first, in_flight=in_flight.messages, acknowledged_after=max(0, passed))
