"""A sink plugin's task: pulls all queues of its topics on the source cluster, and hands the records over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from replicator.client.brokers import min_offset
from replicator.client.pull import SUSPEND, Pulled, pull
from replicator.connector.context import ConnectorContext
from replicator.connector.plugin.task import PluginTask
from replicator.errors import ClientError, ProtocolError, Unreachable
from replicator.observe.logging import get_logger
from replicator.plugins.interface import Position, Record, SinkTask, TaskFailed
from replicator.protocol.codes import Response
from replicator.protocol.compression import decompress
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import decode
from replicator.routing.message_queue import MessageQueue
from replicator.routing.plan import MAX_QUEUES
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.routing.task_id import TaskId

__all__ = ["PluginSinkTask"]

#: Answers to pulls that wait for the plugin, all queues together.
_AHEAD: Final = 4
#: Seconds between checks for new queues, and until a broker that does not answer is asked again.
_POLL_INTERVAL: Final = 1.0

log = get_logger(__name__)


class _Answer(NamedTuple):
    """The answer to a pull at `wanted`: messages, or where to go on since there are none at this offset."""

    state: QueueState
    wanted: int
    pulled: Pulled


class PluginSinkTask(PluginTask):
    """Puts what is in `topics` into the task made by `make`; its position has the next offset of each queue."""

    def __init__(
        self,
        name: str,
        position: Position | None,
        make: Callable[[], SinkTask],
        context: ConnectorContext,
        *,
        plugin: str,
        topics: Sequence[str],
    ) -> None:
        super().__init__(name, position, may_send=context.may_send)
        self._make = make
        self._context = context
        self._plugin = plugin
        self._topics = topics
        self._inbox: asyncio.Queue[_Answer] = asyncio.Queue(_AHEAD)
        self._queues: dict[MessageQueue, QueueState] = {}
        self._readers: dict[MessageQueue, asyncio.Task[None]] = {}

    async def _work(self) -> None:
        self._inbox = asyncio.Queue(_AHEAD)
        self._find_queues()
        task = self._make()
        try:
            await task.start()
            self.set_phase(Phase.RUNNING)
            while not self._stopping.is_set():
                self._find_queues()
                self._read_queues()
                answer = await self._unless_stopped(self._next())
                if answer is not None:
                    await self._take_in(task, answer)
        finally:
            readers = list(self._readers.values())
            self._readers.clear()
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            await task.stop()

    def _find_queues(self) -> None:
        connector = TaskId.parse(self.name).connector
        for broker, topics in self._context.source.topics.items():
            for topic in self._topics:
                for queue_id in range(min(topics[topic].queues, MAX_QUEUES) if topic in topics else 0):
                    queue = MessageQueue(topic, broker, queue_id)
                    if queue not in self._queues:
                        state = QueueState(topic, queue.queue, Queue(self._plugin, 0), route=connector)
                        state.set_phase(self.phase)
                        self._queues[queue] = state
                        self.states.append(state)

    def _read_queues(self) -> None:
        for key, state in self._queues.items():
            reader = self._readers.get(key)
            if reader is None:
                self._readers[key] = asyncio.create_task(self._read(state))
            elif reader.done():
                reader.result()  # it ends by a bug alone

    async def _next(self) -> _Answer | None:
        try:
            return await asyncio.wait_for(self._inbox.get(), _POLL_INTERVAL)
        except TimeoutError:
            return None

    async def _take_in(self, task: SinkTask, answer: _Answer) -> None:
        """Moves the position here alone, in the order of the answers: never past one that was not put yet."""
        if not answer.pulled.messages:
            self._refuse_without_lease()
            self._moved(*answer)
        else:
            await self._put(task, answer.state, answer.pulled)

    async def _put(self, task: SinkTask, state: QueueState, pulled: Pulled) -> None:
        records = [_record(state, message) for message in pulled.messages]
        self._refuse_without_lease()
        await task.put(records)
        self._advance(state, pulled.next_offset)
        state.counters.batches += 1
        state.counters.copied += len(records)
        state.counters.copied_bytes += sum(len(record.body) for record in records)
        state.progress.store_timestamp = pulled.messages[-1].store_timestamp

    def _advance(self, state: QueueState, offset: int) -> None:
        state.progress.position = offset
        self.position = {**(self.position or {}), _key(state): offset}

    async def _read(self, state: QueueState) -> None:
        """Pulls one queue, a few answers ahead of the plugin."""
        offset: int | None = (self.position or {}).get(_key(state))
        state.progress.position = offset
        broker, queue_id = state.source
        while True:
            try:
                reader = self._context.source.cluster.reader(broker)
                if offset is None:
                    offset = state.progress.position = await min_offset(reader, state.topic, queue_id)
                pulled = await pull(reader, state.topic, queue_id, offset, suspend=SUSPEND)
                moved = pulled.code == Response.PULL_OFFSET_MOVED
                if moved and not self._context.source.cluster.is_master(broker, reader.address):
                    raise Unreachable(reader.address, "this slave does not yet have what its master had")
            except (ClientError, ProtocolError) as error:
                state.set_phase(Phase.WAITING, str(error))
                await asyncio.sleep(_POLL_INTERVAL)
                continue
            if state.phase is Phase.WAITING:
                state.set_phase(Phase.RUNNING)
            state.progress.max_offset = pulled.max_offset
            if moved or pulled.next_offset > offset:
                await self._inbox.put(_Answer(state, offset, pulled))
                offset = _continues_at(pulled)
            elif pulled.code == Response.PULL_RETRY_IMMEDIATELY:  # it is asked again, but not all the time
                await asyncio.sleep(_POLL_INTERVAL)

    def _moved(self, state: QueueState, offset: int, pulled: Pulled) -> None:
        """Goes on at the oldest message when the queue does not have `offset`, or behind what it cannot read."""
        begin = _continues_at(pulled)
        if offset < begin:
            state.counters.gaps += begin - offset
        else:
            state.counters.resets += 1
        log.error(
            "source gap",
            task=self.name,
            queue=_key(state),
            wanted=offset,
            oldest=begin,
            end=pulled.max_offset,
        )
        self._advance(state, begin)


def _continues_at(pulled: Pulled) -> int:
    return pulled.min_offset if pulled.code == Response.PULL_OFFSET_MOVED else pulled.next_offset


def _key(state: QueueState) -> str:
    return str(MessageQueue(state.topic, *state.source))


def _record(state: QueueState, message: StoredMessage) -> Record:
    """The message as a plugin gets it.

    Raises:
        TaskFailed: its body is compressed in a way that cannot be undone here.
    """
    try:
        body = decompress(message.body[4:], message.sys_flag)
    except ProtocolError as error:
        raise TaskFailed(f"message {_key(state)}/{message.queue_offset} {error.message}", hint=error.hint) from None
    return Record(state.topic, body, decode(message.properties))
