"""What a route has copied, as the group knows it: what groups and topics at the target are compared with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from replicator.connector.topics import RouteTopics
from replicator.metadata.offsets import CopiedQueue
from replicator.metadata.syncer import ReplicationSnapshot
from replicator.metadata.topics import GivenUpCopies
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_map import Queue, QueueMap
from replicator.routing.task_id import TaskId
from replicator.state.queue_records import is_about, offset_of
from replicator.state.store import Store

__all__ = ["CopiedQueues"]


class CopiedQueues:
    """Reads the state of all workers of one route; offset maps that have not changed are kept."""

    def __init__(self, store: Store, topics: RouteTopics) -> None:
        self._store = store
        self._topics = topics
        self._maps: dict[tuple[str, Queue], tuple[object, OffsetMap]] = {}

    def snapshot(self, concerns: Callable[[str], bool] = lambda _: True) -> ReplicationSnapshot:
        """What the route copies, as the group knows it now.

        Args:
            concerns: whether a topic of the source is to be in it.
        """
        store, name = self._store, self._topics.name
        maps = store.queue_maps(name)
        self._maps = {at: known for at, known in self._maps.items() if at[1] in maps.get(at[0], ())}
        brokers = {topic: {queue.broker for queue in queues} for topic, queues in maps.items()}
        plans = [plan for plan in self._topics.of_users if concerns(plan.topic)]

        def copied(topic: str, source: Queue) -> CopiedQueue | None:
            return self._copied(topic, source) if concerns(topic) else None

        given_up = {topic: self._given_up(topic, maps[topic]) for topic in maps if concerns(topic)}
        return ReplicationSnapshot(
            plans,
            copied,
            brokers,
            made=partial(store.created_at, name),
            selects=self._topics.is_copied,
            given_up={topic: copies for topic, copies in given_up.items() if copies.brokers},
        )

    def _given_up(self, topic: str, queue_map: QueueMap) -> GivenUpCopies:
        store, name = self._store, self._topics.name
        if topic in self._topics.parked or not self._topics.is_copied(topic):
            return GivenUpCopies("", ())
        whole = store.whole_queue_map(name, topic)
        brokers = {target.broker for source, target in whole.items() if source not in queue_map}
        return GivenUpCopies(store.target_topic(name, topic), brokers)

    def _copied(self, topic: str, source: Queue) -> CopiedQueue | None:
        store = self._store
        target = store.queue_map(self._topics.name, topic).get(source)
        if target is None:
            return None
        key = str(TaskId(self._topics.name, topic, source))
        position, offset = store.progress(self._topics.name, key)
        if position is None or (at := offset_of(position)) is None or offset is None:
            return None  # its copy has not started
        if not is_about(offset, target):
            return None  # nor has it at its new target
        known = self._maps.get((topic, source))
        if known is None or known[0] is not offset:
            made = OffsetMap(Interval(*interval) for interval in offset["intervals"])
            known = self._maps[topic, source] = (offset, made)
        return CopiedQueue(
            source,
            target,
            store.target_topic(self._topics.name, topic),
            position=at,
            start=position["start"] or 0,
            offsets=known[1],
            floor=offset["target_floor"],
            copied_until=offset["store_timestamp"],
        )
