"""What a release of parked messages has to know, read from the target alone: it works with the source dead, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from replicator.client.brokers import max_offset, offset_at
from replicator.client.queue_range import read_range
from replicator.client.system_topics import RETRY_PREFIX, TIMER_TOPIC
from replicator.client.topics import TopicConfig
from replicator.connector.context import ConnectorContext
from replicator.connector.delivered_copies import Acknowledged, Copies
from replicator.errors import Unreachable
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.parked import (
    KINDS,
    UNIQUE,
    Place,
    fingerprint,
    parked_topics,
    read_parked,
    real_topic,
    recalled,
    released,
)
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import Found, Since, undecided
from replicator.routing.seal import Seals
from replicator.routing.task_id import TaskId
from replicator.state.known_brokers import forgotten
from replicator.state.queue_records import is_about

__all__ = ["find"]

#: Offsets of the first step back in a topic; each further step is twice as long.
_STEP: Final = 1024
#: Milliseconds by which the clocks of two brokers may differ.
_MARGIN: Final = 60_000


async def find(
    name: str,
    context: ConnectorContext,
    concerns: Callable[[str], bool],
    *,
    tags: frozenset[bytes] = frozenset(),
    brokers: Collection[str] | None = None,
) -> Found:
    """What the connector `name` has parked, and what became of it.

    Args:
        concerns: whether messages for a topic of the source are to be released.
        tags: those of the messages; empty for any.
        brokers: those of the target that are asked; None: all.

    Raises:
        Unreachable: also where a broker is not listed that has something of it.
        TargetBlocked: a broker does not show all that it has stored.
        BrokerRefused, RequestTimeout, NothingShown: see there.
    """
    target = context.target
    await target.refresh()
    there = {broker: each for broker, each in target.topics.items() if brokers is None or broker in brokers}
    for broker in there:  # or what was sent a moment ago might not be seen
        await context.barrier.caught_up(target.cluster.master(broker))
    scan = _Scan(name, context, there, brokers)
    for system_topic, topic in parked_topics(context.group, name).items():
        await scan.read_parked(system_topic, topic, tags)
    found = scan.found
    concerned = {topic for topic in {each.topic for each in found.parked} if concerns(topic)}
    found.parked = [each for each in found.parked if each.topic in concerned]
    waiting = undecided(found)
    for source_topic in sorted({each.topic for each in waiting}):
        since = Since.of((each for each in waiting if each.topic == source_topic), margin=_MARGIN)
        if since is not None and context.store.is_mapped(name, source_topic):
            await scan.read_topic(source_topic, since)
    since = Since.of(waiting, margin=_MARGIN)
    if since is not None:
        await scan.read_timers(since)
    return found


@dataclass(slots=True)
class _Scan:
    """Reads what the brokers `there` have, each with its topics: those of `brokers`, or all, that are known now."""

    name: str
    context: ConnectorContext
    there: Mapping[str, Mapping[str, TopicConfig]]
    brokers: Collection[str] | None
    found: Found = field(default_factory=Found)

    def _queues(self, source_topic: str, topic: str) -> Iterator[Queue]:
        """The queues of `topic`, to which `source_topic` is copied.

        Raises:
            Unreachable: it has some at a broker of which this worker knows nothing yet.
        """
        store, known = self.context.store, self.context.target.topics.keys()
        at = {queue.broker for queue in store.whole_queue_map(self.name, source_topic).values()}
        unlisted = at - known - forgotten(store.state, "target")
        if unlisted and (self.brokers is None or not unlisted.isdisjoint(self.brokers)):
            raise Unreachable(
                min(unlisted),
                "the name servers do not list it, and it has parked messages, or copies of what was parked",
                hint="start it, or if it is gone for good, have it forgotten (replicator brokers forget)",
            )
        for broker, topics in self.there.items():
            for queue_id in range(topics[topic].read_queues if topic in topics else 0):
                yield Queue(broker, queue_id)

    async def read_parked(self, system_topic: str, topic: str, tags: frozenset[bytes]) -> None:
        """Adds what is parked of a system topic; with a secret only what this group has parked."""
        found, context, kind = self.found, self.context, KINDS[system_topic]
        for queue in self._queues(system_topic, topic):
            seals, master = Seals(context.sealer, topic), context.target.cluster.master(queue.broker)
            async for message in read_range(master, topic, queue.queue_id, 0):
                source = provenance.read(message.properties)
                if source is None or source.cluster != context.identity.source or not seals.prove(message, source):
                    continue
                if (key := recalled(message.properties)) is not None:
                    found.recalled.add(key)
                elif tags and not _is_selected(message, tags):
                    continue
                elif (parked := read_parked(message, kind, Place(topic, queue, message.queue_offset))) is not None:
                    found.parked.append(parked)

    async def read_topic(self, topic: str, since: Since) -> None:
        """Adds what of a source topic was delivered and copied, or released, from `since` on."""
        context, target_topic = self.context, self.context.store.target_topic(self.name, topic)
        sources = {to: of for of, to in context.store.whole_queue_map(self.name, topic).items()}
        for queue in self._queues(topic, target_topic):
            copies = Copies(context.sealer, target_topic, self._acknowledged(topic, sources.get(queue), queue))
            await self._read_back(topic, queue, copies, since)

    def _acknowledged(self, topic: str, source: Queue | None, queue: Queue) -> Acknowledged | None:
        """What the group knows to be copied from the queue `source` to `queue`; None where it knows nothing."""
        if self.context.sealer is None or source is None:
            return None
        offset = self.context.store.progress(self.name, str(TaskId(self.name, topic, source)))[1]
        if offset is None or not is_about(offset, queue):
            return None
        return Acknowledged(source, OffsetMap(Interval(*interval) for interval in offset["intervals"]))

    async def _read_back(self, source_topic: str, queue: Queue, copies: Copies, since: Since) -> None:
        """Adds what is in one queue, read from its end backwards, one part after the other."""
        topic, source = copies.topic, self.context.identity.source
        place = (self.context.target.cluster.master(queue.broker), topic, queue.queue_id)
        delivered, retry = self.found.delivered[source_topic], topic.startswith(RETRY_PREFIX)
        start, step = await max_offset(*place), _STEP
        is_over = False
        while start > 0 and (not is_over or copies.may_be_proved_from(start)):
            stop, start = start, max(0, start - step)
            step *= 2
            oldest: StoredMessage | None = None
            oldest_copy: int | None = None
            copies.begin_part()
            async for message in read_range(*place, start, stop):
                oldest = oldest or message
                if self._note_released(message, [source_topic]):
                    continue
                copy = provenance.of(message, topic)
                if copy is None or copy.cluster != source:
                    continue
                oldest_copy = copy.stored if oldest_copy is None else oldest_copy
                print_ = fingerprint(message, retry=retry) if copy.stored >= since.due else None
                if copies.take(message, copy, print_) and print_ is not None:
                    delivered[print_] += 1
            delivered.update(copies.end_part())
            if oldest is None or oldest.queue_offset > start:  # retention has taken what is before
                return
            is_over |= (
                oldest_copy is not None and oldest_copy < since.due and oldest.store_timestamp < since.parked_at
            )

    def _note_released(self, message: StoredMessage, topics: Iterable[str]) -> bool:
        """Adds a message of `topics` of our source if this group has released it; whether it has.

        One that another route has released, and that a group has failed on, waits at the source as any does.
        """
        raw, source, sealer = message.properties, self.context.identity.source, self.context.sealer
        parked = released(raw)
        if (
            parked is None
            or not parked.startswith(f"{source}/")
            or properties.find(raw, provenance.SOURCE) is not None
        ):
            return False
        key = properties.find(raw, UNIQUE) or b""
        if sealer is not None and not sealer.proves_release(raw, parked.encode(), key):
            return False
        self.found.released.add(parked)
        self.found.released_keys |= {(topic, key) for topic in topics}
        return True

    async def read_timers(self, since: Since) -> None:
        """Adds what was released into the timers of the target's brokers."""
        store, sources = self.context.store, defaultdict[str, set[str]](set)  # by their name at the target
        for topic in {each.topic for each in self.found.parked}:
            if store.is_mapped(self.name, topic):
                sources[store.target_topic(self.name, topic)].add(topic)
        for broker, topics in self.there.items():
            if TIMER_TOPIC not in topics:
                continue
            master = self.context.target.cluster.master(broker)
            start = await offset_at(master, TIMER_TOPIC, 0, since.in_timers)
            async for message in read_range(master, TIMER_TOPIC, 0, start):
                of = sources[real_topic(message.properties)]
                self._note_released(message, of)


def _is_selected(parked: StoredMessage, tags: frozenset[bytes]) -> bool:
    """Whether a message has one of `tags`, or had one that selected it before a transform changed it."""
    raw = parked.properties
    return properties.find(raw, b"TAGS") in tags or properties.find(raw, provenance.RETAGGED) is not None
