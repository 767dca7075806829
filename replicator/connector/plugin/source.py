"""A source plugin's task: what it polls goes to the target in batches, each topic to one queue of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from replicator.aio.set_within import set_within
from replicator.client.send import new_fields, send_batch
from replicator.connector.context import ConnectorContext
from replicator.connector.plugin.task import PluginTask
from replicator.errors import BrokerRefused, Unreachable
from replicator.plugins.interface import Polled, Position, Record, SourceTask
from replicator.protocol.batch import new_entry
from replicator.protocol.properties import MAX_PROPERTIES, encode
from replicator.routing.faults import MessageRejected, classify_refusal
from replicator.routing.packing import STORED_MORE
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.routing.task_id import TaskId

__all__ = ["PluginSourceTask", "target_queue"]

#: Seconds between polls that brought nothing.
_IDLE: Final = 0.5
#: Messages of one batch at most, and bytes.
_MESSAGES: Final = 1024
_BYTES: Final = 1024 * 1024


def target_queue(context: ConnectorContext, topic: str) -> Queue | None:
    """Where all records of a topic go, so that their order holds: queue 0 on the first broker that has it."""
    brokers = [broker for broker, topics in context.target.topics.items() if topic in topics]
    return Queue(min(brokers), 0) if brokers else None


class PluginSourceTask(PluginTask):
    """Sends what the task made by `make` polls.

    Args:
        plugin: the plugin's name, which stands for the source broker in the status.
        topics: those that it writes.
    """

    def __init__(
        self,
        name: str,
        position: Position | None,
        make: Callable[[], SourceTask],
        context: ConnectorContext,
        *,
        plugin: str,
        topics: Sequence[str],
    ) -> None:
        super().__init__(name, position, may_send=context.may_send)
        self._make = make
        self._context = context
        connector = TaskId.parse(name).connector
        self._by_topic = {
            topic: QueueState(
                topic, Queue(plugin, 0), target_queue(context, topic) or Queue("", 0), route=connector
            )
            for topic in topics
        }
        self.states = list(self._by_topic.values())

    async def _work(self) -> None:
        task = self._make()
        try:
            await task.start(self.position)
            while not self._stopping.is_set():
                polled = await self._unless_stopped(task.poll())
                for topic, records in groupby(polled or (), key=lambda each: each.record.topic):
                    await self._send(topic, list(records))
                if self.phase is not Phase.RUNNING:
                    self.set_phase(Phase.RUNNING)
                if not polled:
                    await set_within(self._stopping, _IDLE)
        finally:
            await task.stop()

    async def _send(self, topic: str, records: Sequence[Polled]) -> None:
        state = self._by_topic.get(topic)
        if state is None:
            raise ValueError(f"the plugin sends to topic {topic!r}, which is not a topic of its task")
        queue = target_queue(self._context, topic)
        if queue is None:
            raise Unreachable(topic, "no target broker has this topic now")
        state.target = queue
        limit = min(_BYTES, self._context.message_limit(queue.broker))
        for entries, last in _batches(topic, records, limit):
            position = self._storable(last.position)  # first: what was sent without one would come again
            writer = self._context.target.cluster.writer(queue.broker)
            await writer.connection()
            self._refuse_without_lease()
            try:
                await send_batch(writer, new_fields(topic, queue.queue_id), [b"".join(entries)])
            except BrokerRefused as error:
                raise classify_refusal(error) from None
            self.position = position
            state.counters.batches += 1
            state.counters.copied += len(entries)
            state.counters.copied_bytes += sum(map(len, entries))


def _batches(topic: str, records: Sequence[Polled], limit: int) -> Iterator[tuple[list[bytes], Polled]]:
    """The records as entries of batch requests, each with its last one; one that is over `limit` goes alone."""
    entries: list[bytes] = []
    stored, last = 0, None
    for polled in records:
        made = _entry(polled.record)
        size = len(made) + STORED_MORE + len(topic)
        if last is not None and (stored + size > limit or len(entries) == _MESSAGES):
            yield entries, last
            entries, stored = [], 0
        entries.append(made)
        stored += size
        last = polled
    if last is not None:
        yield entries, last


def _entry(record: Record) -> bytes:
    properties = encode(record.properties)
    if len(properties) > MAX_PROPERTIES:
        raise MessageRejected(
            f"a record for topic {record.topic} has {len(properties)} bytes of properties,"
            f" {MAX_PROPERTIES} are possible"
        )
    return new_entry(record.body, properties)
