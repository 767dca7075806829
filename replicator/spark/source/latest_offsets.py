"""The latest offsets of a stream's queues, requested for each micro-batch over persistent connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, TypeVar

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.nameservers import NoBrokers
from replicator.client.topics import TopicConfig, TopicTable, read_topics
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.routing.message_queue import MessageQueue
from replicator.spark.source.stream_offsets import Progress

__all__ = ["QueuesOf", "Watch"]

#: Seconds between two checks for new topics and queues.
_TOPICS: Final = 2.0
#: Concurrent requests.
_AT_ONCE: Final = 32
#: Seconds between attempts if a broker does not answer, and their number.
_PAUSE: Final = 0.5
_ATTEMPTS: Final = 20

#: The queues of a topic at a broker that are read, given the names that brokers use for topics of their own.
QueuesOf = Callable[[TopicConfig, str, Collection[str]], Iterable[MessageQueue]]
T = TypeVar("T")


class Watch:
    """The queues of `cluster` that `queues_of` names, including those of topics that are added later."""

    def __init__(self, cluster: Cluster, queues_of: QueuesOf) -> None:
        self._cluster = cluster
        self._queues_of = queues_of
        self._tables: dict[str, TopicTable] = {}
        self._looked: float | None = None

    async def ends(self, start: Progress) -> dict[MessageQueue, int]:
        """The offset that each queue's next message gets.

        A queue that is gone, or ends before its offset in `start`, is checked again for ten seconds first: brokers
        report the end of a queue late.

        Raises:
            ReplicatorError: a broker did not answer for ten seconds.
        """
        found = await self._insist(self._ends)
        for _ in range(_ATTEMPTS):
            if all(found.get(queue, -1) >= offset for queue, offset in start.items()):
                break
            await asyncio.sleep(_PAUSE)
            self._looked = None
            found = await self._insist(self._ends)
        return found

    async def oldest(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset of each queue's oldest message; raises the errors of `ends`."""
        wanted = list(queues)
        return await self._insist(lambda: self._ask(min_offset, wanted))

    async def _ends(self) -> dict[MessageQueue, int]:
        now = asyncio.get_running_loop().time()
        if self._looked is None or now - self._looked > _TOPICS:
            await self._refresh()
            self._looked = now
        return await self._ask(max_offset, self._queues)

    async def _refresh(self) -> None:
        topology = await self._cluster.refresh()
        system = (topology.cluster, *self._cluster.brokers())
        for broker in self._cluster.brokers():
            known = self._tables.get(broker)
            self._tables[broker] = await read_topics(self._cluster.reader(broker), known=known)
        self._queues = [
            queue
            for broker, table in self._tables.items()
            for config in table.topics.values()
            for queue in self._queues_of(config, broker, system)
        ]

    async def _ask(
        self, what: Callable[[Endpoint, str, int], Awaitable[int]], queues: list[MessageQueue]
    ) -> dict[MessageQueue, int]:
        async def one(queue: MessageQueue) -> int:
            return await what(self._cluster.reader(queue.broker), queue.topic, queue.queue_id)

        return dict(zip(queues, await bounded(one, queues, at_once=_AT_ONCE), strict=True))

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await ask()
            except (ClientError, ProtocolError, NoBrokers) as error:  # name servers forget the last broker, too
                if attempt == _ATTEMPTS:
                    raise ReplicatorError(f"the source cannot be asked what it has: {error}") from None
                await asyncio.sleep(_PAUSE)
                self._looked = None
        raise AssertionError
