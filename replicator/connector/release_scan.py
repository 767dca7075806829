"""What a release of parked messages has to know, read from the target alone: it works with the source dead, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replicator.client.brokers import max_offset, offset_at
from replicator.client.endpoint import Endpoint
from replicator.client.queue_range import read_range
from replicator.client.system_topics import RETRY_PREFIX, TIMER_TOPIC
from replicator.connector.context import ConnectorContext
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.parked import KINDS, Place, fingerprint, parked_topics, read_parked, recalled, released
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import Found, Since, undecided
from replicator.routing.seal import Seals

__all__ = ["find"]

#: Offsets of the first step back in a topic; each further step is twice as long.
_STEP: Final = 1024
#: Milliseconds by which the clocks of two brokers may differ.
_MARGIN: Final = 60_000


async def find(name: str, context: ConnectorContext, concerns: Callable[[str], bool]) -> Found:
    """What the connector `name` has parked, and what became of it.

    Args:
        concerns: whether messages for a topic of the source are to be released.

    Raises:
        TargetBlocked: a broker does not show all that it has stored.
        BrokerRefused, Unreachable, RequestTimeout, NothingShown: see there.
    """
    target, found = context.target, Found()
    await target.refresh()
    for broker in target.topics:  # or what was sent a moment ago might not be seen
        await context.barrier.caught_up(target.cluster.master(broker))
    for system_topic, topic in parked_topics(context.group, name).items():
        for broker, topics in target.topics.items():
            for queue_id in range(topics[topic].read_queues if topic in topics else 0):
                await _read_parked(found, context, KINDS[system_topic], topic, Queue(broker, queue_id))
    concerned = {topic for topic in {each.topic for each in found.parked} if concerns(topic)}
    found.parked = [each for each in found.parked if each.topic in concerned]
    waiting = undecided(found)
    for source_topic in sorted({each.topic for each in waiting}):
        since = Since.of((each for each in waiting if each.topic == source_topic), margin=_MARGIN)
        if since is not None and context.store.is_mapped(name, source_topic):
            await _read_topic(found, name, context, source_topic, since)
    since = Since.of(waiting, margin=_MARGIN)
    if since is not None:
        await _read_timers(found, context, since)
    return found


async def _read_parked(found: Found, context: ConnectorContext, kind: str, topic: str, queue: Queue) -> None:
    """Adds what is parked in a queue; with a secret only what this group has parked."""
    seals, master = Seals(context.sealer, topic), context.target.cluster.master(queue.broker)
    async for message in read_range(master, topic, queue.queue_id, 0):
        source = provenance.read(message.properties)
        if source is None or source.cluster != context.identity.source or not seals.prove(message, source):
            continue
        if (key := recalled(message.properties)) is not None:
            found.recalled.add(key)
        elif (parked := read_parked(message, kind, Place(topic, queue, message.queue_offset))) is not None:
            found.parked.append(parked)


async def _read_topic(found: Found, name: str, context: ConnectorContext, topic: str, since: Since) -> None:
    """Adds what of a source topic was delivered and copied, or released, from `since` on."""
    target, target_topic = context.target, context.store.target_topic(name, topic)
    for broker, topics in target.topics.items():
        for queue_id in range(topics[target_topic].read_queues if target_topic in topics else 0):
            place = (target.cluster.master(broker), target_topic, queue_id)
            await _read_back(found, *place, source=context.identity.source, source_topic=topic, since=since)


async def _read_back(
    found: Found, master: Endpoint, topic: str, queue_id: int, *, source: str, source_topic: str, since: Since
) -> None:
    delivered, retry = found.delivered[source_topic], topic.startswith(RETRY_PREFIX)
    start, step = await max_offset(master, topic, queue_id), _STEP
    while start > 0:
        stop, start = start, max(0, start - step)
        step *= 2
        oldest: StoredMessage | None = None
        oldest_copy: int | None = None
        async for message in read_range(master, topic, queue_id, start, stop):
            oldest = oldest or message
            if (parked := released(message.properties)) is not None:
                found.released.add(parked)
                continue
            copy = provenance.of(message, topic)
            if copy is None or copy.cluster != source:
                continue
            oldest_copy = copy.stored if oldest_copy is None else oldest_copy
            print_ = fingerprint(message, retry=retry) if copy.stored >= since.due else None
            if print_ is not None:
                delivered[print_] += 1
        if oldest is None or oldest.queue_offset > start:  # retention has taken what is before
            return
        if oldest_copy is not None and oldest_copy < since.due and oldest.store_timestamp < since.parked_at:
            return


async def _read_timers(found: Found, context: ConnectorContext, since: Since) -> None:
    """Adds what was released into the timers of the target's brokers."""
    for broker, topics in context.target.topics.items():
        if TIMER_TOPIC not in topics:
            continue
        master = context.target.cluster.master(broker)
        start = await offset_at(master, TIMER_TOPIC, 0, since.parked_at)
        async for message in read_range(master, TIMER_TOPIC, 0, start):
            if (parked := released(message.properties)) is not None:
                found.released.add(parked)
