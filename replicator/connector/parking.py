"""What a route parks of its source's waiting messages: those of its topics that are not delivered yet."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Final

from replicator.aio.backoff import Backoff
from replicator.client.brokers import DEFAULT_DELAYS, read_settings
from replicator.client.cluster import Cluster
from replicator.client.pending import delivered_levels, timer_read_until
from replicator.client.pull import EVERYTHING, Subscription
from replicator.client.system_topics import SCHEDULE_TOPIC
from replicator.connector.context import ConnectorContext
from replicator.connector.release_scan import find
from replicator.connector.topics import RouteTopics
from replicator.errors import BrokerRefused, ReplicatorError
from replicator.observe.logging import get_logger
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.channel import Channel, Source
from replicator.routing.options import RouteOptions, Transform
from replicator.routing.pair import QueuePair
from replicator.routing.parked import (
    KINDS,
    RECALL,
    ReleasedMessages,
    bare_recall,
    due_of,
    is_recall,
    parse_delays,
    real_queue,
    real_topic,
    transformed,
    with_due,
)
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import is_released
from replicator.routing.shared import Shared
from replicator.routing.source_side import BrokerSource
from replicator.routing.state import QueueState
from replicator.settings import RouteSettings
from replicator.state.record import Kind, Record, Version

__all__ = ["ParkedSource", "Parking"]

#: Seconds to wait after a fault: the first time, and the most.
_BACKOFF_FIRST: Final = 0.5
_BACKOFF_MOST: Final = 10.0
#: Seconds within which a release has ended everywhere that the route's new start ends.
_ENDED: Final = 5.0

log = get_logger(__name__)


class Parking:
    """Of each waiting message whether a route parks it, and when it is due."""

    def __init__(self, topics: RouteTopics, settings: RouteSettings, context: ConnectorContext) -> None:
        #: What earlier failovers have released of the route's topics, once `ready` has returned.
        self.released = ReleasedMessages()
        self._name = topics.name
        self._context = context
        #: By the target brokers that are read.
        self._reading: defaultdict[frozenset[str], asyncio.Lock] = defaultdict(asyncio.Lock)
        #: Of the order to release, as it was when what it had released was read there.
        self._read: dict[frozenset[str], Version] = {}
        #: Of orders that were withdrawn here, as they were before: nothing else has changed.
        self._withdrawn: dict[Version, Version] = {}
        self._copies = topics.is_copied
        self._tags = frozenset(tag.encode() for tag in settings.tags)
        self._delays: dict[str, list[int]] = {}
        #: Up to where a queue was delivered when its copy began: an offset of a level, a due time of a timer.
        self._delivered: dict[tuple[str, Queue], int] = {}

    async def ready(self, topic: str, queue: Queue) -> None:
        """Returns when it is known what was released of a queue: that is read before it is copied after a release.

        Target brokers that have nothing of it are not waited for.
        """
        brokers = self._brokers(topic, queue)
        async with self._reading[brokers]:
            while (order := self._order()) is not None:
                version = self._withdrawn.get(order.version, order.version)
                if self._read.get(brokers) == version:
                    return
                await self._read_released(brokers, done=order.value["done"])
                self._read[brokers] = version
                self._withdraw(order)

    def _brokers(self, topic: str, queue: Queue) -> frozenset[str]:
        """The target brokers with what is parked of the source broker of a queue, and what was released of it."""
        store = self._context.store
        maps = [store.whole_queue_map(self._name, system_topic) for system_topic in KINDS]
        parked = {
            target.broker for each in maps for source, target in each.items() if source.broker == queue.broker
        }
        place = store.whole_queue_map(self._name, topic).get(queue)
        return frozenset(parked if place is None else parked | {place.broker})

    def _order(self) -> Record | None:
        order = self._context.store.state.record(Kind.SYNC, f"{self._name}/release")
        return order if order is not None and order.value else None

    def _withdraw(self, order: Record) -> None:
        """What was not released yet is left to the source: a later stop must not release it."""
        now, topics = self._order(), order.value["topics"]
        left = [topic for topic in topics if topic and not self._copies(topic)]
        if now is None or now.version != order.version or order.value["done"] or (topics and left == topics):
            return
        self._context.store.put(Kind.SYNC, order.key, {**order.value, "topics": left, "done": not left})
        if (changed := self._order()) is not None:
            self._withdrawn[changed.version] = self._withdrawn.get(order.version, order.version)

    async def _read_released(self, brokers: frozenset[str], *, done: bool) -> None:
        backoff = Backoff(_BACKOFF_FIRST, _BACKOFF_MOST)
        # Whoever sees to the release ends it when the route runs again.
        await asyncio.sleep(self._context.settle_timeout if done else _ENDED)
        while True:
            try:
                found = await find(self._name, self._context, self._copies, brokers=brokers)
                break
            except ReplicatorError as error:
                log.warning("what was released is not known yet", connector=self._name, reason=str(error))
                await asyncio.sleep(backoff.next())
        released = [each for each in found.parked if is_released(each, found)]
        for each in released:
            self.released.add(each)
        log.info("released messages are not copied again", connector=self._name, messages=len(released))

    def options(self, options: RouteOptions) -> RouteOptions:
        """Those of a queue of waiting messages, for a route with `options`.

        Its consume queue holds due times where others hold tags, so that brokers could not filter by these; by SQL
        they can: a waiting message has its properties. One that takes another back has not.
        """
        kind, expression = options.subscription
        by_sql = Subscription(kind, f"({expression}) OR {RECALL.decode()} IS NOT NULL")
        return replace(
            options,
            subscription=by_sql if kind == "SQL92" else EVERYTHING,
            tags=None,
            start_from="earliest",
            transform=partial(self._park, options.transform),
            audit_share=0.0,
        )

    def pair(self, state: QueueState, shared: Shared, *, topic: str) -> QueuePair:
        """What copies a queue of waiting messages to `topic`, for a route whose queues have `shared` in common."""
        own = replace(shared, options=self.options(shared.options))
        return QueuePair(state, own, topic=topic, from_start=True, source=ParkedSource(state, own, self))

    async def begin(self, cluster: Cluster, topic: str, queue: Queue) -> int | None:
        """Asks the source how far it has delivered a queue; what it has delivered is not parked any more.

        Returns:
            for a delay level the offset of the message that it delivers next; None where no offset says it.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout, ProtocolError: see there.
        """
        master = cluster.master(queue.broker)
        try:
            levels = (await read_settings(master)).get("messageDelayLevel", DEFAULT_DELAYS)
        except BrokerRefused:
            levels = DEFAULT_DELAYS
        self._delays[queue.broker] = parse_delays(levels)
        if topic == SCHEDULE_TOPIC:
            delivered = (await delivered_levels(master)).get(queue.queue_id + 1, 0)
            self._delivered[topic, queue] = delivered
            return delivered
        self._delivered[topic, queue] = await timer_read_until(master)
        return None

    def _park(
        self, transform: Transform | None, topic: str, queue: Queue, message: StoredMessage
    ) -> StoredMessage | None:
        """As a route's transform: the message as it is parked, or None.

        Args:
            transform: the route's own.
        """
        due, raw = self._due(topic, queue, message), message.properties
        if due is None:
            return None
        if transform is None:
            return with_due(message, due)
        if is_recall(raw):
            return with_due(bare_recall(message), due)
        to = Queue(queue.broker, real_queue(raw) or 0)
        changed = transformed(message, partial(transform, real_topic(raw), to))
        if changed is None:
            return None
        tag, before = (properties.find(each, b"TAGS") for each in (changed.properties, raw))
        return with_due(changed, due, retagged=tag != before)

    def _due(self, topic: str, queue: Queue, message: StoredMessage) -> int | None:
        """When a message is due (ms since the epoch); None for one that is not parked."""
        raw = message.properties
        level = queue.queue_id + 1 if topic == SCHEDULE_TOPIC else None
        due = due_of(message, level, self._delays.get(queue.broker, ()))
        if due is None or not self._copies(real_topic(raw)):
            return None
        place = message.queue_offset if topic == SCHEDULE_TOPIC else due
        if place < self._delivered.get((topic, queue), 0):
            return None
        if self._tags and not is_recall(raw) and properties.find(raw, b"TAGS") not in self._tags:
            return None
        return due


class ParkedSource(BrokerSource):
    """A queue of waiting messages at a broker of the source cluster."""

    def __init__(self, state: QueueState, shared: Shared, parking: Parking) -> None:
        super().__init__(state, shared, from_start=True, end=None)
        self._parking = parking

    async def first_offset(self) -> int:
        state = self._state
        oldest = await super().first_offset()
        undelivered = await self._parking.begin(self._shared.source, state.topic, state.source)
        return oldest if undelivered is None else max(oldest, undelivered)

    async def open(self, channel: Channel, offset: int) -> Source:
        await self._parking.begin(self._shared.source, self._state.topic, self._state.source)
        return await super().open(channel, offset)
