"""The lease of Spark tasks that copy on behalf of a worker: they may send as long as its heartbeats allow it.

A task reads the heartbeats itself. One that was not there yet when the look before began has been stored since,
so the lease counts from then, by the task's own clock, however long its process or machine stood still. Others
call the worker gone later than that (see `coordinator`), and a worker that gives a queue away waits as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import Final, Literal

from replicator.aio.clock import now
from replicator.client.brokers import max_offset
from replicator.client.cluster import Cluster
from replicator.client.pull import pull
from replicator.errors import ClientError, ProtocolError, Unreachable
from replicator.group.freshness import Freshness
from replicator.group.membership import Heartbeat
from replicator.group.signature import Signer
from replicator.protocol.codes import Response

__all__ = ["JOBS", "JobLease"]

#: Where a heartbeat's `info` has the jobs whose tasks may send.
JOBS: Final = "bulk"

#: Looks at the heartbeats in the time that a lease lasts.
_POLLS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLease:
    """The lease of `job`, which the process `incarnation` of `worker` has started; it lasts for `seconds`.

    Args:
        topic: of the heartbeats.
        coordination: the cluster that they are on.
        patience: seconds within which a first heartbeat must come.
        signer: verifies heartbeats.
    """

    group: str
    worker: str
    incarnation: str
    job: str
    topic: str
    seconds: float
    patience: float
    signer: Signer
    coordination: Literal["source", "target"] = "source"

    @asynccontextmanager
    async def held(self, cluster: Cluster) -> AsyncIterator[Callable[[], bool]]:
        """A check whether the task may send now; the context is entered when it may.

        Raises:
            Unreachable: no heartbeat of the worker allows it.
        """
        view = _View(self)
        following = [asyncio.create_task(view.follow(cluster, broker)) for broker in cluster.brokers()]
        try:
            try:
                async with asyncio.timeout(self.patience):
                    await view.held.wait()
            except TimeoutError:
                reason = "no heartbeat of it allows this task to send: its queues have another owner by now"
                raise Unreachable(f"worker {self.worker}", reason) from None
            yield view.holds
        finally:
            for each in following:
                each.cancel()
            await asyncio.wait(following)


class _View:
    """What one task has read of the worker's heartbeats."""

    def __init__(self, lease: JobLease) -> None:
        self.held = asyncio.Event()
        self._lease = lease
        self._sequence = 0
        self._since = -inf
        self._freshness = Freshness()

    def holds(self) -> bool:
        return now() - self._since <= self._lease.seconds

    async def follow(self, cluster: Cluster, broker: str) -> None:
        """Reads one broker's heartbeats: at its master, since a slave shows them later than others see them."""
        topic, at, asked = self._lease.topic, -1, -inf
        while True:
            started = now()
            try:
                master = cluster.master(broker)
                if at < 0:
                    at = await max_offset(master, topic, 0)
                    asked = started
                pulled = await pull(master, topic, 0, at)
                if pulled.code == Response.PULL_OFFSET_MOVED:
                    at = -1
                else:
                    for message in pulled.messages:
                        heartbeat = self._lease.signer.heartbeat(topic, message.content, self._lease.group)
                        if heartbeat is not None:
                            age = self._freshness.age(broker, message.store_timestamp, heartbeat.echo)
                            self._hear(heartbeat, asked, age)
                    at = pulled.next_offset
                    if at >= pulled.max_offset:
                        asked = started
            except (ClientError, ProtocolError):
                pass  # the lease expires unless another broker has a heartbeat
            await asyncio.sleep(self._lease.seconds / _POLLS)

    def _hear(self, heartbeat: Heartbeat, asked: float, age: float) -> None:
        lease = self._lease
        if age > lease.seconds:
            return  # somebody has written an old one again, or the worker is about to lose its own lease
        if (heartbeat.worker, heartbeat.incarnation) != (lease.worker, lease.incarnation):
            return
        if heartbeat.sequence <= self._sequence:
            return
        self._sequence = heartbeat.sequence
        self._since = asked if lease.job in heartbeat.info.get(JOBS, ()) else -inf
        if self.holds():
            self.held.set()
