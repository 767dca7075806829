"""Where groups are in light message queues (LMQ), lite topics among them, at both sides.

A light queue is not copied as such: its messages are in a queue of the topic that they were sent to, and the
target's broker puts their copies into its own. So the last message before a group's place is looked up: where it is
stored at the source, where its copy is, and at which offset of the target's light queue. What comes before it at
the source comes before it at the target too, where all of a light queue are sent to one queue, as those of a lite
topic are. With several queues, each copied for itself, copies may be in another order: then nothing is written, and
that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.light_queue import LightMessage, pull_light
from replicator.client.offsets import OffsetTable, offset_in
from replicator.client.pull import message_at
from replicator.client.system_topics import LIGHT_PREFIX
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import ClientError, ProtocolError
from replicator.metadata.offsets import CopiedQueue, GroupQueue, QueueLookup
from replicator.metadata.remembered import Remembered
from replicator.observe.counted import counted
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import light_offset
from replicator.routing import provenance
from replicator.routing.offset_map import OffsetMap
from replicator.routing.options import Identity
from replicator.routing.queue_map import Queue

__all__ = ["LightQueues"]

_AT_ONCE: Final = 16
#: Messages of the source's light queue among which one is looked for that was copied; a filter leaves some out.
_LOOK: Final = 128
#: Messages before a group's place that are read with it.
_BEFORE: Final = 4
#: Seconds for which a place that could not be known is not looked up again.
_BELIEVED: Final = 60.0
#: Messages of the target's light queue that are read at a time, between a group's place and where it is now.
_MOST: Final = 10_000


class _Asked(NamedTuple):
    group: str
    name: str
    broker: str
    offset: int


class _NotKnown(Exception):
    """Why a place is not known; nothing where that need not be said."""


@dataclass(frozen=True, slots=True)
class _Found:
    """`exact` is the offset at the target for one of the source, before which `settled` are copied or left out."""

    target: Queue
    settled: int
    exact: int


class LightQueues:
    """Looks at the light queues of both clusters.

    Args:
        translate: gives the offset at the target that means the same as a group's place in an ordinary queue.
    """

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        identity: Identity,
        translate: Callable[[GroupQueue], Awaitable[int]],
    ) -> None:
        self._source = source
        self._target = target
        self._identity = identity
        self._translate = translate
        self._found = Remembered[tuple[str, str, int], _Found]()
        self._not_known = Remembered[tuple[str, str, int], tuple[float, str]]()
        #: Where groups were at the target.
        self._seen = Remembered[_Asked, int | None]()
        #: By broker and name the topic and queue that its messages are stored in.
        self._homes = Remembered[tuple[str, str], tuple[str, Queue]]()
        self._copies = Remembered[tuple[str, str, int, int], tuple[OffsetMap, int]]()
        self._unresponsive = UnresponsiveBrokers({})
        #: Of which groups offsets are not carried over, and why.
        self.problems: list[str] = []

    async def read(
        self,
        consumed: Mapping[str, OffsetTable],
        there: Mapping[str, OffsetTable],
        copied: QueueLookup,
        groups: Collection[str],
        away: Mapping[str, str],
    ) -> list[GroupQueue]:
        """The places of `groups` in light queues whose messages are copied.

        Args:
            consumed, there: the offsets at both sides, by broker.
            away: source brokers that have not answered just before, each with why.
        """
        self._unresponsive = UnresponsiveBrokers(away)
        why: dict[_Asked, str] = {}

        async def place(asked: _Asked) -> GroupQueue | None:
            try:
                return await self._place(asked, there, copied)
            except (ClientError, ProtocolError, _NotKnown) as error:
                why[asked] = str(error)
                return None

        asked = [each for each in _light(consumed) if each.group in groups]
        places = [each for each in await bounded(place, asked, at_once=_AT_ONCE) if each is not None]
        shared = Counter(map(_where, places))
        for each in places:
            if shared[_where(each)] > 1:  # two light queues of this name have become one
                at = _Asked(each.group, each.topic, each.queue.source.broker, each.source)
                why[at] = f"several brokers have it, and {each.queue.target.broker} all copies"
        self.problems = sorted([*_said(why), *_said_of_sessions(consumed.values())])
        self._found.forget_unused(lambda key: key[0] in away)
        self._not_known.forget_unused()
        self._homes.forget_unused()
        self._seen.forget_unused()
        self._copies.forget_unused()
        return [each for each in places if shared[_where(each)] == 1]

    async def _place(
        self, asked: _Asked, there: Mapping[str, OffsetTable], copied: QueueLookup
    ) -> GroupQueue | None:
        found = await self._exact(asked, there, copied)
        if found is None or found.target.broker not in there:
            return None
        target = Queue(found.target.broker, 0)
        queue = CopiedQueue(Queue(asked.broker, 0), target, asked.name, found.settled, 0, OffsetMap(), floor=0)
        now = offset_in(there, found.target.broker, asked.group, asked.name, 0)
        place = GroupQueue(asked.group, asked.name, queue, asked.offset, now, found=found.exact)
        if now is None or now == found.exact:
            return place
        return await self._between(place, now, found.exact)

    async def _between(self, place: GroupQueue, now: int, exact: int) -> GroupQueue:
        """With the copies between where the group is at the target and where it should be."""
        start, stop = min(now, exact), max(now, exact)
        at = (place.queue.target.broker, place.topic, start, stop)
        known = self._copies.get(at)
        if known is None:
            known = await self._read_copies(*at)
        offsets, end = known
        if end == stop:
            self._copies[at] = known
        elif now > exact and end < min(stop, start + _MOST):
            return replace(place, end=end)  # the light queue was deleted, and starts at 0 again
        return replace(place, queue=replace(place.queue, offsets=offsets, unread=(end, stop)))

    async def _read_copies(self, broker: str, name: str, start: int, stop: int) -> tuple[OffsetMap, int]:
        """The copies in [start, stop) of a target's light queue, by their offsets there, and where that ended."""
        offsets, at = OffsetMap(most=_MOST), start
        while at < min(stop, start + _MOST):
            pulled = await pull_light(self._target.master(broker), name, at)
            messages = [each for each in pulled.messages if each.offset < stop]
            for each in messages:
                found = provenance.of(each.message, each.topic)
                if found is not None and found.cluster == self._identity.source:
                    offsets.add(each.offset, each.offset, 1)
            if messages:
                at = messages[-1].offset + 1
            elif at < pulled.min_offset:
                at = min(pulled.min_offset, stop)
            else:
                break
        return offsets, at

    async def _exact(self, asked: _Asked, there: Mapping[str, OffsetTable], copied: QueueLookup) -> _Found | None:
        """Where the group would continue; None: its messages are not copied, or none of them yet.

        It is looked up again where the group has moved at the target: brokers delete lite topics with all offsets.
        """
        home = self._homes.get((asked.broker, asked.name))
        queue = None if home is None else copied(*home)
        if home is not None and queue is None:
            return None
        key = (asked.broker, asked.name, asked.offset)
        at, why = self._not_known.get(key) or (-inf, "")
        if now() - at < _BELIEVED:
            raise _NotKnown(why)
        known = self._found.get(key)
        if known is not None:
            before = self._seen.get(asked)
            self._seen[asked] = seen = offset_in(there, known.target.broker, asked.group, asked.name, 0)
            stays = seen in (known.exact, before) and known.settled == asked.offset
            if queue is not None and queue.target == known.target and stays:
                return known
        try:
            found = await self._unresponsive.ask(asked.broker, lambda: self._looked_up(asked, there, copied))
        except ClientError:
            if known is None:
                raise
            return known  # the source is away: nothing more of it is copied
        except _NotKnown as error:
            self._not_known[key] = (now(), str(error))
            raise
        if found is not None:
            self._found[key] = found
            self._seen[asked] = offset_in(there, found.target.broker, asked.group, asked.name, 0)
        return found

    async def _looked_up(
        self, asked: _Asked, there: Mapping[str, OffsetTable], copied: QueueLookup
    ) -> _Found | None:
        light = _LightQueue(self._source.reader(asked.broker), asked.name)
        begin, end = await light.open(asked.offset)
        offset = max(begin, min(asked.offset, end))
        if begin == end:
            synced = any((asked.group, asked.name) in table.offsets for table in there.values())
            raise _NotKnown("" if synced else "none of its messages are at the source any more")
        topic, queue_id = await light.home(end)
        self._homes[asked.broker, asked.name] = topic, Queue(asked.broker, queue_id)
        queue = copied(topic, Queue(asked.broker, queue_id))
        if queue is None:
            return None
        settled = await light.first_behind(queue.position, begin, offset)
        for number in range(settled - 1, max(begin, settled - _LOOK) - 1, -1):
            if (at := await self._copy_of(await light.at(number), asked.name, topic, queue)) is not None:
                return _Found(queue.target, settled, at + 1)
        for number in range(settled, min(end, settled + _LOOK)):
            message = await light.at(number)
            if message.message.queue_offset >= queue.position:
                break
            if (at := await self._copy_of(message, asked.name, topic, queue)) is not None:
                # What the source has lost of it the group has not read: the target may still have that.
                unread = max(0, begin - asked.offset)
                return _Found(queue.target, settled, max(0, at - unread))
        if settled > begin + _LOOK:
            raise _NotKnown(f"of the {_LOOK} messages before its place none are at the target")
        return None

    async def _copy_of(self, light: LightMessage, name: str, topic: str, queue: CopiedQueue) -> int | None:
        """The offset in the target's light queue of the copy of a message; None: it was not copied."""
        source = light.message.queue_offset
        if source < queue.start:
            return None
        at = queue.offsets.target_of(source)
        if at is None:
            first = queue.offsets.first
            if first is not None and source >= first.source:
                return None
            at = await self._translate(GroupQueue("", topic, queue, source, None))
        broker = self._target.master(queue.target.broker)
        copy = await message_at(broker, queue.target_topic, queue.target.queue_id, at)
        if copy is None or not self._is_copy(copy, queue, source):
            return None
        here = light_offset(copy.properties, name)
        if here is None:
            raise _NotKnown(f"{queue.target.broker} has put copies of its messages into no light queue")
        # A light queue that was deleted starts at 0 again, and messages from before it say where they were.
        there = (await pull_light(broker, name, here, count=1)).messages
        return here if there and self._is_copy(there[0].message, queue, source) else None

    def _is_copy(self, copy: StoredMessage, queue: CopiedQueue, source: int) -> bool:
        found = provenance.of(copy, queue.target_topic)
        if found is None or found.cluster != self._identity.source:
            return False
        return (Queue(found.broker, found.queue_id), found.offset) == (queue.source, source)


class _LightQueue:
    """One of a source broker: its messages by their offsets in it, read as they are asked for."""

    def __init__(self, broker: Endpoint, name: str) -> None:
        self._broker = broker
        self._name = name
        self._read: dict[int, LightMessage] = {}

    async def open(self, offset: int) -> tuple[int, int]:
        """Reads some messages around `offset`. Returns where it begins and ends."""
        pulled = await pull_light(self._broker, self._name, max(0, offset - _BEFORE))
        if not pulled.messages and pulled.min_offset < pulled.max_offset:
            inside = max(pulled.min_offset, min(offset, pulled.max_offset) - _BEFORE)
            pulled = await pull_light(self._broker, self._name, inside)
        self._read |= {each.offset: each for each in pulled.messages}
        return pulled.min_offset, pulled.max_offset

    async def at(self, number: int) -> LightMessage:
        """The message at an offset.

        Raises:
            _NotKnown: there is none any more.
        """
        if number not in self._read:
            pulled = await pull_light(self._broker, self._name, number)
            self._read |= {each.offset: each for each in pulled.messages}
        if number not in self._read:
            raise _NotKnown("its messages are being deleted at the source")
        return self._read[number]

    async def home(self, end: int) -> tuple[str, int]:
        """The topic and queue of what was read and of the last message; where there are several it is not known."""
        await self.at(end - 1)
        homes = sorted({(each.topic, each.queue_id) for each in self._read.values()})
        if len(homes) > 1:
            (topic, first), (other, second) = homes[:2]
            raise _NotKnown(f"its messages are in several queues, as {topic}/{first} and {other}/{second}")
        return homes[0]

    async def first_behind(self, position: int, begin: int, end: int) -> int:
        """The first offset in [begin, end) whose message is not before `position` in its own queue, or `end`."""
        if end == begin or (await self.at(end - 1)).message.queue_offset < position:
            return end
        low, high = begin, end - 1
        while low < high:
            middle = (low + high) // 2
            if (await self.at(middle)).message.queue_offset < position:
                low = middle + 1
            else:
                high = middle
        return low


def _light(consumed: Mapping[str, OffsetTable]) -> Iterator[_Asked]:
    for broker, table in consumed.items():
        for (group, topic), offsets in table.offsets.items():
            if topic.startswith(LIGHT_PREFIX) and 0 in offsets:
                yield _Asked(group, topic, broker, offsets[0])


def _where(place: GroupQueue) -> tuple[str, str, Queue]:
    return place.group, place.topic, place.queue.target


def _said(why: Mapping[_Asked, str]) -> Iterator[str]:
    by_reason: dict[str, list[_Asked]] = {}
    for asked, reason in why.items():
        by_reason.setdefault(reason, []).append(asked)
    by_reason.pop("", None)
    for reason, all_asked in by_reason.items():
        first = min(all_asked)
        groups = counted(len({each.group for each in all_asked}), "group")
        yield (
            f"offsets of {groups} in light message queues, of {first.group} in {first.name} for example,"
            f" are not carried over: {reason}"
        )


def _said_of_sessions(tables: Iterable[OffsetTable]) -> Iterator[str]:
    sessions = sum(table.sessions for table in tables)
    if sessions:
        yield (
            f"{counted(sessions, 'offset')} of groups that are light message queues themselves, as MQTT's sessions,"
            " are not carried over: their consumers begin where they choose"
        )
