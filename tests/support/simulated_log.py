"""The system topics of a cluster in virtual time, and the log that one process reads and writes there."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, Final, Protocol

from replicator.client.topics import TopicConfig
from replicator.errors import Unreachable
from replicator.group.control_log import LogMessage
from replicator.routing.message_queue import MessageQueue

__all__ = ["Cluster", "Log"]

#: When virtual time begins, in seconds.
EPOCH: Final = 1_700_000_000.0


class Reader(Protocol):
    """A process that has a log."""

    def reaches(self, cluster: Cluster) -> bool:
        """Whether it lives, and is not cut off from the cluster."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` until the process ends."""
        ...


class Cluster:
    """The system topics of one cluster."""

    def __init__(self, random: Random, name: str, brokers: int) -> None:
        self.random = random
        self.name = name
        self.brokers = [f"{name}-{i}" for i in range(brokers)]
        self.away = False
        self.queues: dict[MessageQueue, list[tuple[float, bytes]]] = {}
        #: By queue, what its readers wait for.
        self.news: defaultdict[MessageQueue, asyncio.Event] = defaultdict(asyncio.Event)

    def store(self, topic: str, body: bytes, copies: int) -> None:
        for broker in self.random.sample(self.brokers, min(copies, len(self.brokers))):
            queue = MessageQueue(topic, broker, 0)
            self.queues.setdefault(queue, []).append((asyncio.get_running_loop().time(), body))
            self.news.pop(queue, asyncio.Event()).set()


class Log:
    """What one process reads and writes at a cluster."""

    def __init__(
        self,
        process: Reader,
        cluster: Cluster,
        past: Mapping[str, float],
        on_said: Callable[[LogMessage], None],
        on_caught_up: Callable[[], None],
    ) -> None:
        self._process = process
        self._cluster = cluster
        self._past = past
        self._on_said = on_said
        self._on_caught_up = on_caught_up
        self.caught_up = self.was_read = False
        self._left = len(past) * len(cluster.brokers)

    async def open(self, there: Mapping[str, Mapping[str, TopicConfig]]) -> None:
        await self._reach()
        began = asyncio.get_running_loop().time()
        for topic, past in self._past.items():
            for broker in self._cluster.brokers:
                self._process.spawn(self._read(MessageQueue(topic, broker, 0), began - past))

    async def refresh(self) -> None: ...

    def forget(self, broker: str) -> None: ...

    async def close(self) -> None: ...

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        await self._reach()
        self._cluster.store(topic, body, copies)
        await asyncio.sleep(self._cluster.random.uniform(0.001, 0.01))
        if not self._process.reaches(self._cluster):
            raise Unreachable(self._cluster.name, "the answer was lost")

    async def _reach(self) -> None:
        await asyncio.sleep(self._cluster.random.uniform(0.001, 0.01))
        if not self._process.reaches(self._cluster):
            raise Unreachable(self._cluster.name, "cut off")

    async def _read(self, queue: MessageQueue, since: float) -> None:
        random, stored = self._cluster.random, self._cluster.queues.setdefault(queue, [])
        position = next((i for i, (at, _) in enumerate(stored) if at >= since), len(stored))
        end = len(stored)
        read = False
        while True:
            slow = random.random() < 0.03
            await asyncio.sleep(random.uniform(0.03, 1.0) if slow else random.uniform(0.001, 0.03))
            if not self._process.reaches(self._cluster):
                await asyncio.sleep(0.2)
                continue
            if not read and position >= end:
                read = True
                self._left -= 1
                if self._left == 0:
                    self.caught_up = self.was_read = True
                    self._on_caught_up()
            if position == len(stored):
                await self._cluster.news[queue].wait()
                continue
            at, body = stored[position]
            position += 1
            self._on_said(LogMessage(queue, body, int((EPOCH + at) * 1000)))
