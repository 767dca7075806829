"""Rows as messages: which queue each goes to, batches of one in flight per queue, rows of copies only once."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from replicator.client.brokers import read_config
from replicator.client.cluster import Cluster
from replicator.client.send import new_fields, send_batch
from replicator.client.topics import WRITABLE, read_topics
from replicator.errors import BrokerRefused, ConfigError, ReplicatorError, Unreachable
from replicator.protocol import properties
from replicator.protocol.batch import entry
from replicator.protocol.properties import BROKER_MADE, MAX_PROPERTIES
from replicator.routing import provenance
from replicator.routing.dispatch import Dispatch
from replicator.routing.faults import TargetBlocked, judge
from replicator.routing.packing import STORED_MORE
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import read_on, read_tail

__all__ = ["Row", "Sender"]

#: Messages and bytes of one batch, at most; the broker's own limit holds too.
_MOST: Final = 512
_BYTES: Final = 1024 * 1024
#: Seconds for which a busy or absent broker is tried again.
_PATIENCE: Final = 60.0
#: Seconds that a dead attempt's last request may still wait inside a broker.
_SETTLE: Final = 1.0

_SHARDING_KEY: Final = "__SHARDINGKEY"
_BROKER_MADE: Final = frozenset(name.decode() for name in BROKER_MADE)


class Row(NamedTuple):
    """A message to send; `broker` and `queue_id` say where to, or neither does."""

    topic: str
    body: bytes
    properties: Mapping[str, str]
    flag: int = 0
    broker: str | None = None
    queue_id: int | None = None


class _Message(NamedTuple):
    entry: bytes
    source: Provenance | None


Lane = tuple[str, Queue]


class Sender:
    """Sends rows to `cluster`.

    Rows that carry provenance are not sent where the target queue has them already, so a task that is tried again
    repeats none, as long as each source queue comes in order, in one task, to one target queue.

    Args:
        settle: somebody may have died while he sent the same rows, and his last request may still wait in a broker.
    """

    def __init__(self, cluster: Cluster, *, settle: bool) -> None:
        self.sent = 0
        self.skipped = 0
        self._cluster = cluster
        self._settle = settle
        self._dispatch = Dispatch()
        self._turn = count(random.randrange(1024))
        self._queues: dict[str, list[Queue]] = {}
        self._limits: dict[str, int] = {}
        self._reached: dict[tuple[Lane, str, str, int], int] = {}

    async def send(self, rows: Sequence[Row]) -> None:
        """Returns when all are acknowledged.

        Raises:
            ConfigError: there is no such topic or queue.
            ReplicatorError: a message was refused, or what became of it is not known.
        """
        lanes: dict[Lane, list[_Message]] = {}
        for row in rows:
            lane = (row.topic, await self._queue_of(row))
            lanes.setdefault(lane, []).append(_encode(row))
        await asyncio.gather(*(self._send(lane, messages) for lane, messages in lanes.items()))

    async def _queue_of(self, row: Row) -> Queue:
        queues = self._queues.get(row.topic)
        if queues is None:
            queues = self._queues[row.topic] = await self._look(row.topic)
        if (row.broker is None) != (row.queue_id is None):
            raise ConfigError("brokerName and queueId go together", hint="give both or neither")
        if row.broker is not None and row.queue_id is not None:
            queue = Queue(row.broker, row.queue_id)
            if queue not in queues:
                raise ConfigError(
                    f"topic {row.topic} has no queue {row.broker}/{row.queue_id}",
                    hint="make it, or leave out brokerName and queueId",
                )
            return queue
        key = row.properties.get(_SHARDING_KEY)
        return queues[(next(self._turn) if key is None else zlib.crc32(key.encode())) % len(queues)]

    async def _look(self, topic: str) -> list[Queue]:
        """The queues of a topic that can be written."""
        found: list[Queue] = []
        for name, broker in self._cluster.brokers().items():
            if broker.master is not None:
                config = (await read_topics(self._cluster.master(name))).topics.get(topic)
                writable = config.write_queues if config is not None and config.perm & WRITABLE else 0
                found += [Queue(name, i) for i in range(writable)]
        if not found:
            raise ConfigError(f"topic {topic} cannot be written: no broker has it", hint="make it first")
        return sorted(found)

    async def _send(self, lane: Lane, messages: list[_Message]) -> None:
        topic, queue = lane
        if queue.broker not in self._limits:
            config = await read_config(self._cluster.master(queue.broker))
            self._limits[queue.broker] = min(_BYTES, config.max_message_size)
        limit = self._limits[queue.broker]
        batch: list[_Message] = []
        size = 0
        for message in messages:
            if await self._is_there(lane, message):
                self.skipped += 1
                continue
            stored = len(message.entry) + STORED_MORE + len(topic)
            if batch and (len(batch) >= _MOST or size + stored > limit):
                await self._deliver(topic, queue, batch)
                batch, size = [], 0
            batch.append(message)
            size += stored
        if batch:
            await self._deliver(topic, queue, batch)

    async def _is_there(self, lane: Lane, message: _Message) -> bool:
        """Whether the target queue has the copy already."""
        source = message.source
        if source is None:
            return False
        key = (lane, source.cluster, source.broker, source.queue_id)
        if key not in self._reached:
            self._reached[key] = await self._reach(lane, source)
        if source.offset <= self._reached[key]:
            return True
        self._reached[key] = source.offset
        return False

    async def _reach(self, lane: Lane, source: Provenance) -> int:
        """The source offset of the last copy in a target queue; -1 where there is none."""
        topic, queue = lane

        def mine(found: Provenance) -> bool:
            return found[1:4] == source[1:4]

        place = (self._cluster.master(queue.broker), topic, queue.queue_id)
        tail = await read_tail(*place, mine=mine, known=None)
        if self._settle:
            await asyncio.sleep(_SETTLE)
            await self._dispatch.caught_up(place[0])
            await read_on(*place, tail, mine=mine)
        return -1 if tail.last is None else tail.last.source

    async def _deliver(self, topic: str, queue: Queue, batch: list[_Message]) -> None:
        fields = new_fields(topic, queue.queue_id)
        body = [b"".join([message.entry for message in batch])]
        until, pause = time.monotonic() + _PATIENCE, 0.05
        while True:
            try:
                await self._once(queue, fields, body)
            except TargetBlocked as blocked:
                if time.monotonic() > until:
                    raise ReplicatorError(f"{topic}/{queue.broker}/{queue.queue_id}: {blocked}") from None
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2.0, pause * 2)
                continue
            self.sent += len(batch)
            return

    async def _once(self, queue: Queue, fields: dict[str, str], body: list[bytes]) -> None:
        """Sends once; whatever leaves the outcome open ends the attempt, since the next one reads the tail."""
        try:
            writer = self._cluster.writer(queue.broker)
            await writer.connection()
        except Unreachable as error:
            raise TargetBlocked(str(error)) from None
        try:
            await send_batch(writer, fields, body)
        except BrokerRefused as error:
            raise judge(error) from None


def _encode(row: Row) -> _Message:
    told = {name: value for name, value in row.properties.items() if name not in _BROKER_MADE}
    told.setdefault("UNIQ_KEY", uuid.uuid4().hex.upper())
    for name, value in told.items():
        if "\x01" in name + value or "\x02" in name + value:
            raise ConfigError(f"property {name!r} has the character 1 or 2 in it", hint="brokers cannot keep those")
    raw = properties.encode(told)
    if len(raw) > MAX_PROPERTIES:
        raise ConfigError(
            f"the properties of a message have {len(raw)} bytes", hint=f"{MAX_PROPERTIES} are possible"
        )
    body = row.body
    crc = zlib.crc32(body) & 0x7FFFFFFF
    made = entry(len(body).to_bytes(4) + body, raw, body_crc=crc, flag=row.flag)
    return _Message(made, provenance.read(raw))
