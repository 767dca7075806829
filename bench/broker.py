"""One broker as the benchmark uses it: topics, their offsets, and the store times of messages."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from replicator.aio.bounded import bounded
from replicator.client.brokers import read_runtime
from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull
from replicator.client.security import Security
from replicator.client.send import send_batch
from replicator.client.topics import TopicConfig, delete_topic, write_topic
from replicator.errors import BrokerRefused
from replicator.protocol import batch
from replicator.protocol.codes import Request
from replicator.protocol.message import StoredMessage

#: Requests about different topics that are under way at a time.
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Span:
    """Store times of a topic's first and last message, in seconds since the epoch, and their number."""

    first: float
    last: float
    messages: int


class Broker:
    """Reached at `address`, without any delay proxy."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._endpoint = Endpoint(address, Security())

    async def close(self) -> None:
        await self._endpoint.close()

    async def create(self, topic: str, *, queues: int) -> None:
        await write_topic(self._endpoint, TopicConfig(name=topic, read_queues=queues, write_queues=queues))

    async def create_all(self, topics: Iterable[str], *, queues: int) -> None:
        await bounded(lambda topic: self.create(topic, queues=queues), topics, at_once=AT_ONCE)

    async def delete(self, topic: str) -> None:
        await delete_topic(self._endpoint, topic)

    async def heads(self, topic: str, *, queues: int) -> list[int]:
        """The next offset of each queue; zeros while the topic does not exist."""
        return await asyncio.gather(*(self.head(topic, queue) for queue in range(queues)))

    async def span(self, topic: str, *, queues: int) -> Span:
        """By the broker's own clock, so it does not depend on polling, or on the observer's load."""
        heads = await self.heads(topic, queues=queues)
        firsts, lasts = [], []
        for queue, head in enumerate(heads):
            if head:
                firsts.append((await self._message(topic, queue, 0)).store_timestamp)
                lasts.append((await self._message(topic, queue, head - 1)).store_timestamp)
        return Span(min(firsts) / 1000, max(lasts) / 1000, sum(heads))

    async def read(self, topic: str, *, queues: int) -> list[StoredMessage]:
        """All messages."""
        found: list[StoredMessage] = []
        for queue in range(queues):
            offset = 0
            while messages := (await pull(self._endpoint, topic, queue, offset)).messages:
                found += messages
                offset = messages[-1].queue_offset + 1
        return found

    async def send(self, topic: str, queue: int, body: bytes) -> None:
        """Sends one message; it is stored when this returns."""
        length = len(body).to_bytes(4, "big")
        fields = batch.header_fields(
            group="bench",
            topic=topic,
            queue_id=queue,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            reconsume_times=0,
        )
        entry = batch.entry(length + body, b"KEYS\x01bench\x02", body_crc=zlib.crc32(body), flag=0)
        await send_batch(self._endpoint, fields, [entry])

    async def head(self, topic: str, queue: int) -> int:
        """The next offset of a queue; zero while the topic does not exist."""
        fields = {"topic": topic, "queueId": str(queue)}
        try:
            answer = await self._endpoint.ask(Request.GET_MAX_OFFSET, fields)
        except BrokerRefused:
            return 0
        return answer.number("offset")

    async def written(self) -> int:
        """Bytes that were ever written to its commit log."""
        return int((await read_runtime(self._endpoint))["commitLogMaxOffset"])

    async def _message(self, topic: str, queue: int, offset: int) -> StoredMessage:
        pulled = await pull(self._endpoint, topic, queue, offset, count=1)
        return pulled.messages[0]
