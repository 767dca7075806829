"""The two processes of a broker of which one is the master, by election or manually."""

from __future__ import annotations

import contextlib
from collections.abc import Set

from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.client.topics import TopicConfig, read_topics, write_topic
from replicator.errors import ReplicatorError
from replicator.sandbox import Broker, Cluster
from tests.support.traffic import connected
from tests.support.worker import until

__all__ = ["Replicas", "know_topic", "knows"]


async def know_topic(broker: Broker, topic: str) -> None:
    """Has a slave know `topic` now, with one queue; by itself it asks its master now and then only."""
    endpoint = Endpoint(broker.address, Security())
    try:
        await write_topic(endpoint, TopicConfig(name=topic, read_queues=1, write_queues=1))
    finally:
        await endpoint.close()
    await until(lambda: knows(broker, {topic}), what="the slave knows the topic")


async def knows(broker: Broker, topics: Set[str]) -> bool:
    """Whether a replica, master or slave, has these topics now."""
    endpoint = Endpoint(broker.address, Security())
    try:
        return topics <= (await read_topics(endpoint)).topics.keys()
    finally:
        await endpoint.close()


class Replicas:
    """The replicas of the only broker of `cluster`, among which its controller elects the master."""

    def __init__(self, cluster: Cluster) -> None:
        (first,) = cluster.brokers
        assert first.slave is not None
        assert cluster.nameserver.controller is not None
        self.controller = cluster.nameserver.controller
        self._cluster = cluster
        self._name = first.name
        self._both = {broker.address: broker for broker in (first, first.slave)}

    async def roles(self) -> tuple[Broker, Broker]:
        """The master and the slave, as the controller sees them."""
        found = await until(lambda: self.controller.replicas(self._name), what="a master")
        (slave,) = (broker for address, broker in self._both.items() if address != found.master)
        return self._both[found.master], slave

    async def master(self) -> Broker | None:
        """The master as the controller sees it; None while there is none, or no controller."""
        found = await self.controller.replicas(self._name)
        return None if found is None else self._both[found.master]

    async def fail_over(self) -> Broker:
        """Kills the master, and returns it when the other one is elected."""
        master, slave = await self.roles()
        await master.kill()
        await self._elected(slave)
        return master

    async def fall_apart(self) -> Broker:
        """Ends the slave, and returns it when the master acknowledges alone."""
        master, slave = await self.roles()
        await slave.kill()
        await until(lambda: master.in_sync(1), what="the master is alone")
        return slave

    async def elect_uncleanly(self, slave: Broker) -> Broker:
        """Kills the master and starts a slave that lacks some of its messages; returns the former master."""
        await self.controller.configure(enableElectUncleanMaster="true")
        master, _ = await self.roles()
        await master.kill()
        await slave.start()
        await self._elected(slave)
        await self.controller.configure(enableElectUncleanMaster="false")
        return master

    async def come_back(self, broker: Broker) -> None:
        """Starts a replica as the slave, and returns when it is in sync."""
        await broker.start()
        await until(broker.in_sync, what="both replicas are in sync")

    async def _elected(self, broker: Broker) -> None:
        async def done() -> bool:
            with contextlib.suppress(ReplicatorError):
                async with connected(self._cluster) as client:
                    return client.master(self._name).address == broker.address
            return False

        await until(done, what="the other one is the master")
