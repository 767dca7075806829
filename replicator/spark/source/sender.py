"""Sends rows as messages, and chooses the queue of each."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Collection, Sequence
from functools import partial
from itertools import chain, count
from typing import Final

from replicator.client.brokers import read_config
from replicator.client.cluster import Cluster
from replicator.client.topics import WRITABLE, TopicTable, read_topics
from replicator.errors import ClientError, ConfigError
from replicator.protocol import properties
from replicator.protocol.batch import new_entry
from replicator.ranges.retry import insist
from replicator.routing import provenance
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.message_queue import MessageQueue
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue
from replicator.spark.source.queue_writer import Message, QueueWriter
from replicator.spark.source.row_encoder import Row

__all__ = ["Sender", "refuse_missing"]

#: Maximum bytes of one batch; the broker's own limit applies too.
_BYTES: Final = 1024 * 1024

_SHARDING_KEY: Final = b"__SHARDINGKEY"


class Sender:
    """Sends rows to `cluster`.

    Rows with provenance are not sent if the target queue has them already, so a retried task sends none twice, as
    long as the rows of each source queue come in order, in one task, to one target queue.

    Args:
        settle: somebody may have died while he sent the same rows, and his last request may still wait in a broker.
        brokers: those that `cluster` had when the write began: only their queues are chosen from, by all tasks, and
            they are waited for if they are down, or sharding keys would go to several queues. Rows that name their
            queue may name one of any broker, and wait for that only.
    """

    def __init__(self, cluster: Cluster, *, settle: bool, brokers: Collection[str]) -> None:
        self._cluster = cluster
        self._settle = settle
        self._brokers = brokers
        self._barrier = DispatchBarrier()
        self._turn = count(random.randrange(1024))
        self._queues: dict[str, list[Queue]] = {}
        self._queues_by_broker: dict[tuple[str, str], list[Queue]] = {}
        self._limits: dict[str, int] = {}
        self._writers: dict[MessageQueue, QueueWriter] = {}

    @property
    def sent(self) -> int:
        """The number of messages sent."""
        return sum(writer.sent for writer in self._writers.values())

    async def send(self, rows: Sequence[Row]) -> None:
        """Returns when all are acknowledged.

        Raises:
            ConfigError: there is no such topic or queue.
            ReplicatorError: see `QueueWriter.send`; or a broker was down for a minute.
        """
        messages: dict[QueueWriter, list[Message]] = {}
        for row in rows:
            message = _message(row)
            queue = await self._queue_of(row, message.source)
            writer = await self._writer(MessageQueue(row.topic, *queue))
            messages.setdefault(writer, []).append(message)
        await asyncio.gather(*(writer.send(those) for writer, those in messages.items()))

    async def _writer(self, queue: MessageQueue) -> QueueWriter:
        writer = self._writers.get(queue)
        if writer is None:
            limit = await self._limit(queue.broker)
            writer = QueueWriter(
                self._cluster,
                queue,
                limit=limit,
                barrier=self._barrier,
                settle=self._settle,
            )
            self._writers[queue] = writer
        return writer

    async def _limit(self, broker: str) -> int:
        if broker not in self._limits:
            config = await insist(
                self._cluster, f"broker {broker}", lambda: read_config(self._cluster.master(broker))
            )
            self._limits[broker] = min(_BYTES, config.max_message_size)
        return self._limits[broker]

    async def _queue_of(self, row: Row, source: Provenance | None) -> Queue:
        if (row.broker is None) != (row.queue_id is None):
            raise ConfigError("brokerName and queueId go together", hint="give both or neither")
        if row.broker is not None and row.queue_id is not None:
            queue = Queue(row.broker, row.queue_id)
            if queue not in await self._queues_at(row.topic, row.broker):
                raise ConfigError(
                    f"topic {row.topic} has no queue {queue}",
                    hint="create it, or leave out brokerName and queueId",
                )
            return queue
        queues = await self._queues_of(row.topic)
        key = properties.find(row.properties, _SHARDING_KEY)
        if key is None and source is not None:  # a retry must find it in the same queue
            key = f"{source.broker}/{source.queue_id}".encode()
        return queues[(next(self._turn) if key is None else zlib.crc32(key)) % len(queues)]

    async def _queues_of(self, topic: str) -> list[Queue]:
        """The writable queues of a topic."""
        queues = self._queues.get(topic)
        if queues is None:
            found = [await self._queues_at(topic, broker) for broker in self._brokers]
            queues = self._queues[topic] = sorted(chain.from_iterable(found))
            if not queues:
                raise _missing(topic)
        return queues

    async def _queues_at(self, topic: str, broker: str) -> list[Queue]:
        """The writable queues at one broker; none if the broker is unknown."""
        queues = self._queues_by_broker.get((topic, broker))
        if queues is None:
            if broker not in {*self._brokers, *self._cluster.brokers()}:
                return []
            read = partial(self._read_topics, broker)
            table = await insist(self._cluster, f"broker {broker}", read)
            writable = range(_writable(table, topic))
            queues = self._queues_by_broker[topic, broker] = [Queue(broker, i) for i in writable]
        return queues

    async def _read_topics(self, broker: str) -> TopicTable:
        return await read_topics(self._cluster.master(broker))


async def refuse_missing(cluster: Cluster, topic: str) -> None:
    """Refuses a topic that cannot be written, before tasks begin; a broker that is down may have it.

    Raises:
        ConfigError: all brokers say that they do not have it, or that it is read-only.
    """
    for broker in cluster.brokers():
        try:
            if _writable(await read_topics(cluster.master(broker)), topic):
                return
        except ClientError:
            return
    raise _missing(topic)


def _writable(table: TopicTable, topic: str) -> int:
    """How many queues of a topic can be written at a broker."""
    config = table.topics.get(topic)
    return config.write_queues if config is not None and config.perm & WRITABLE else 0


def _missing(topic: str) -> ConfigError:
    return ConfigError(f"topic {topic} cannot be written: no broker has it", hint="create it first")


def _message(row: Row) -> Message:
    return Message(new_entry(row.body, row.properties, flag=row.flag), provenance.read(row.properties))
