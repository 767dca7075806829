"""Where each group is in each copied queue, at both sides; what the offset map does not say is looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from replicator.aio.slices import in_slices
from replicator.client.cluster import Cluster
from replicator.client.offsets import OffsetTable, offset_in, read_offsets
from replicator.client.pull import message_at
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import ClientError, ProtocolError
from replicator.metadata.clusters import Tables
from replicator.metadata.group_register import GroupRegister
from replicator.metadata.groups import GroupSelector
from replicator.metadata.held_record import HeldQueue
from replicator.metadata.light_queues import LightQueues
from replicator.metadata.offsets import CopiedQueue, GroupQueue, QueueLookup, standing
from replicator.metadata.pop_checkpoints import REVIVE_GROUP, REVIVE_PREFIX, Consumption, InFlight
from replicator.metadata.pop_log import PopLog
from replicator.metadata.remembered import Remembered
from replicator.metadata.scanned_copies import ScannedCopies
from replicator.metadata.target_ends import TargetEnds
from replicator.routing import provenance
from replicator.routing.options import Identity
from replicator.routing.queue_map import Queue

__all__ = ["GroupPositions"]


class GroupPositions:
    """Looks at the consumer offsets of both clusters; `register` says of which groups they matter."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        identity: Identity,
        selector: GroupSelector,
        register: GroupRegister,
    ) -> None:
        self._source = source
        self._target = target
        self._identity = identity
        self._selector = selector
        self._register = register
        groups = selector.named
        self.consumed = Tables(
            source,
            lambda broker, known: source.read_offsets(
                broker, known=known, groups=groups, beside=[(REVIVE_GROUP, f"{REVIVE_PREFIX}{source.known_as}")]
            ),
            masters_only=False,
        )
        self.there = Tables(target, lambda broker, known: read_offsets(broker, known=known), masters_only=True)
        self._pop = PopLog(source)
        self._light = LightQueues(source, target, identity, self._exact)
        self._ends = TargetEnds(target)
        self._copies = ScannedCopies(identity.source)
        # By source and target queue, since queues may move to another target.
        self._returned = Remembered[tuple[str, str, Queue, Queue], tuple[int, int | None]]()
        self._unresponsive = UnresponsiveBrokers({})
        self.failures: dict[str, str] = {}
        #: The offsets of source brokers that were in step with what POP consumers held.
        self._known: Mapping[str, OffsetTable] = {}
        #: The offsets at the target as they were before.
        self._before: Mapping[str, OffsetTable] = {}
        #: Why it is not known what POP consumers hold; and offsets that are not carried over.
        self.problems: list[str] = []
        #: What they held at source brokers, as somebody else saw it later: it counts for those that are away.
        self.recorded: Callable[[], Iterable[HeldQueue]] = tuple

    async def read(self, copied: QueueLookup) -> list[GroupQueue]:
        """All places of selected groups in the queues that are copied.

        Those about which a broker cannot be asked are left out; `failures` says which brokers those are.
        """
        consumed = await self.consumed.refresh()
        there = await self.there.refresh()
        held = await self._pop.in_flight(consumed)
        self.failures = self._pop.behind | self.consumed.failures | self.there.failures
        self._unresponsive = UnresponsiveBrokers(self.consumed.failures)
        explained = self._explained(consumed)
        answered = consumed.keys() - self.consumed.failures.keys()
        away = [each for each in self.recorded() if each.source.broker not in answered]
        names = {group for table in explained.values() for group, _ in table.offsets} | {
            each.group for each in away
        }
        selected = {group for group in names if self._selector.selects(group)}
        await self._register.learn(selected)
        found = []
        raw = self._raw(copied, explained, there, held, selected)
        async for part in in_slices(self._with_recorded(raw, away, copied, there, selected)):
            for place in part:
                try:
                    found.append(await self._complete(place))
                except (ClientError, ProtocolError) as error:
                    self._failed(place, error)
        light = await self._light.read(explained, there, copied, selected, self.consumed.failures)
        found += [each for each in light if self._register.is_taken(each.queue.target.broker, each.group)]
        self.problems = sorted([*self._pop.problems.values(), *self._light.problems])
        self._before = there
        self._forget_unused()
        return found

    def _forget_unused(self) -> None:
        """What was looked up for groups and queues that are gone; of brokers that fail they may be left out."""
        away = self.failures.keys()
        self._copies.forget_unused(away=away)
        self._returned.forget_unused(lambda key: any(queue.broker in away for queue in key[2:]))
        self._ends.forget_unused()  # they are not believed for long anyway

    def _failed(self, place: GroupQueue, error: ClientError | ProtocolError) -> None:
        target = place.queue.target
        # A broker's address says enough of one that is away, and nothing of a message that cannot be read.
        where = f"{place.group} in {place.queue.target_topic} queue {target.queue_id}: "
        self.failures[target.broker] = f"{where if isinstance(error, ProtocolError) else ''}{error}"

    def _explained(self, consumed: Mapping[str, OffsetTable]) -> Mapping[str, OffsetTable]:
        """The offsets of which it is known what POP consumers hold before them.

        A source broker that is away keeps those of which that was known last: what was delivered later may never
        have been acknowledged.
        """
        now = {name: table for name, table in consumed.items() if name not in self._pop.behind}
        self._known = {name: table for name, table in self._known.items() if name in consumed} | now
        away = self.consumed.failures
        return {name: table for name, table in self._known.items() if name in now or name in away}

    def _with_recorded(
        self,
        raw: Iterable[GroupQueue],
        away: Iterable[HeldQueue],
        copied: QueueLookup,
        there: Mapping[str, OffsetTable],
        selected: Collection[str],
    ) -> Iterable[GroupQueue]:
        """The places `raw`, but for queues of brokers that are `away` as the record has them."""
        known = {(each.group, each.topic, each.source): each for each in away if each.group in selected}
        yield from (place for place in raw if (place.group, place.topic, place.queue.source) not in known)
        for each in known.values():
            queue = copied(each.topic, each.source)
            if queue is None or queue.target.broker not in there:
                continue
            if self._register.is_taken(queue.target.broker, each.group):
                yield each.place(queue, _offset(there, each.group, queue))

    def _raw(
        self,
        copied: QueueLookup,
        consumed: Mapping[str, OffsetTable],
        there: Mapping[str, OffsetTable],
        held: Mapping[Consumption, InFlight],
        selected: Collection[str],
    ) -> Iterable[GroupQueue]:
        queues: dict[tuple[str, Queue], CopiedQueue | None] = {}  # each is looked up once, for all groups
        for broker, table in consumed.items():
            for (group, topic), offsets in table.offsets.items():
                if group not in selected:
                    continue
                for queue_id, offset in offsets.items():
                    at = (topic, Queue(broker, queue_id))
                    if at not in queues:
                        queues[at] = copied(*at)
                    queue = queues[at]
                    if queue is None or queue.target.broker not in there:
                        continue
                    if not self._register.is_taken(queue.target.broker, group):
                        continue
                    target = _offset(there, group, queue)
                    in_flight = held.get(Consumption(group, topic, broker, queue_id)) if held else None
                    place = GroupQueue(group, topic, queue, offset, target)
                    yield _before(in_flight, place, all_known=broker not in self._pop.problems)

    async def past_what_is_held(self, place: GroupQueue) -> GroupQueue:
        """The place of a group behind all that its POP consumers were delivered, instead of before what they hold.

        Raises:
            ClientError, ProtocolError: a broker does not show what lies between.
        """
        assert place.delivered is not None  # noqa: S101 - a bug of the caller
        raw = GroupQueue(place.group, place.topic, place.queue, place.delivered, place.target)
        return replace(await self._complete(raw), in_flight=place.in_flight, held=place.held)

    async def _exact(self, place: GroupQueue) -> int:
        return standing(await self._complete(place)).exact

    async def _complete(self, place: GroupQueue) -> GroupQueue:
        """With what the offset map does not say: it is read from the copies themselves."""
        queue = place.queue
        oldest = await self._ends.oldest(queue)
        queue = replace(queue, floor=max(queue.floor, oldest), oldest=oldest)
        place = replace(place, queue=queue, returned=await self._back(place))
        first, last = queue.offsets.first, queue.offsets.last
        begin = await self._ends.newest(queue) if first is None else first.target
        place = await self._with_end(place, begin if last is None else last[1] + 1)
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
            found = await self._behind(place, place.source, queue.floor, stop, in_order=first is not None)
            place = replace(place, found=found)
            if place.target is not None and found < min(place.target, begin):  # it would miss what lies between
                place = replace(place, queue=await self._deeper(place, found, begin))
        return place

    async def _with_end(self, place: GroupQueue, known: int) -> GroupQueue:
        """Without what lies behind the end of the target queue, which goes on at least to `known`: that is from
        before the topic was deleted there and recreated. 4.9 keeps the offsets of groups then.
        """
        at, returned = place.target or 0, place.returned or 0
        if at > known and _offset(self._before, place.group, place.queue) not in (at, None):
            at = known  # it moves on: somebody reads there
        if max(at, returned) <= known:
            return place
        end = await self._ends.if_before(place.queue, max(at, returned))
        if end is None:
            return place
        return replace(
            place,
            end=end if at > end else None,
            returned=place.returned if returned <= end else None,
        )

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
        if await self._behind(place, place.source, queue.floor, begin, in_order=True) > queue.floor:
            return False  # there are copies of what it has consumed since then; that is looked up for it anyway
        return await self._behind(place, place.source + 1, queue.floor, begin, in_order=True) == queue.floor

    async def _before_reset(self, place: GroupQueue) -> GroupQueue:
        """The group's place among what was copied before: the source queue still has that, up to where it parts."""
        queue = place.queue
        found = await self._behind(place, place.source, queue.oldest, queue.floor)
        here = found if place.target is None else min(found, max(place.target, queue.oldest))
        return replace(place, found=found, queue=await self._deeper(place, here, queue.floor))

    async def _deeper(self, place: GroupQueue, start: int, stop: int) -> CopiedQueue:
        """The queue with what its target has in [start, stop), before the offset map, in that; a part at a time."""
        queue = place.queue
        broker = self._target.master(queue.target.broker)
        copies, end = await self._copies.before(broker, place, start, stop)
        await asyncio.sleep(0)  # to join two long maps takes as long as many places do
        return replace(queue, offsets=copies.followed_by(queue.offsets), unread=(end, stop))

    async def _behind(
        self, place: GroupQueue, source: int, start: int, stop: int, *, in_order: bool = False
    ) -> int:
        broker = self._target.master(place.queue.target.broker)
        return await self._copies.offset_behind(broker, place, source, start, stop, in_order=in_order)

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


def _before(in_flight: InFlight | None, place: GroupQueue, *, all_known: bool) -> GroupQueue:
    """The place before the first message that is in flight: a broker moves the offset when it delivers one."""
    if in_flight is None or in_flight.first >= place.source:
        return place
    passed = place.source - in_flight.first - in_flight.messages
    return replace(
        place,
        source=in_flight.first,
        in_flight=in_flight.messages,
        acknowledged_after=max(0, passed),
        delivered=place.source if all_known else None,
        held=tuple(each for each in in_flight.held if each.offset < place.source) if all_known else (),
    )


def _offset(there: Mapping[str, OffsetTable], group: str, queue: CopiedQueue) -> int | None:
    """The offset of a group in a target queue, None where it has none."""
    return offset_in(there, queue.target.broker, group, queue.target_topic, queue.target.queue_id)
