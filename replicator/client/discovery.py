"""What both clusters have: brokers, topics, limits. Looked at again and again, cheaply.

A broker that does not answer keeps what was last known of it, so its queues wait instead of vanishing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from replicator.client.brokers import BrokerConfig
from replicator.client.cluster import Cluster, Topology
from replicator.client.endpoint import Endpoint
from replicator.client.topics import TopicConfig, TopicTable
from replicator.errors import BrokerRefused, ClientError, ProtocolError, ReplicatorError

__all__ = ["Discovery"]


class Discovery:
    """The topics and limits of one cluster's brokers.

    Args:
        masters_only: only brokers with a master count (the target, which is written to).
    """

    def __init__(self, cluster: Cluster, *, masters_only: bool) -> None:
        self.cluster = cluster
        self.cluster_name = ""
        self.failures: dict[str, ReplicatorError] = {}
        #: Brokers whose masters have told their topics at the last look.
        self.masters: set[str] = set()
        #: Those of them that have shown all: what one of these did not show does not exist there.
        self.complete: set[str] = set()
        #: Rises whenever any topic is found to differ from the look before, whoever has looked.
        self.revision = 0
        self._masters_only = masters_only
        self._tables: dict[str, TopicTable] = {}
        self._configs: dict[str, BrokerConfig] = {}

    @property
    def topics(self) -> Mapping[str, Mapping[str, TopicConfig]]:
        """Per broker, its topics by name."""
        return {name: table.topics for name, table in sorted(self._tables.items())}

    @property
    def configs(self) -> Mapping[str, BrokerConfig]:
        return self._configs

    async def refresh(self) -> Topology:
        """Looks at all brokers that are there now, and returns who is there.

        Raises:
            Unreachable, StartupError: the name servers could not be asked.
        """
        try:
            topology = await self.cluster.refresh()
        except ReplicatorError:
            self.masters, self.complete = set(), set()
            raise
        self.cluster_name = topology.cluster
        names = [
            broker.name
            for broker in topology.brokers.values()
            if broker.master is not None or not self._masters_only
        ]
        masters, complete = set[str](), set[str]()
        await asyncio.gather(*(self._read_broker(name, masters, complete) for name in names))
        self.masters, self.complete = masters, complete
        return topology

    async def absence(self, refused: BaseException | None) -> str:
        """Why none of its brokers was reached at the last look; empty: one was.

        Args:
            refused: how that look ended. Where name servers are away alone, brokers answer all the same.
        """
        names = sorted(self.cluster.brokers())
        if refused is None:
            failures = [self.failures.get(name) for name in names]
            silent = [str(each) for each in failures if each is not None and not isinstance(each, BrokerRefused)]
            return silent[0] if silent and len(silent) == len(names) else ""
        if not self.cluster.is_proxy and any(await asyncio.gather(*map(self._answers, names))):
            return ""
        return str(refused)

    async def _answers(self, name: str) -> bool:
        try:
            await self.cluster.read_config(self.cluster.reader(name))
        except BrokerRefused:
            return True
        except (ClientError, ProtocolError):
            return False
        return True

    def forget(self, broker: str) -> bool:
        """No more waiting for the return of `broker`; whether it was known."""
        known = broker in self._tables or broker in self.cluster.brokers()
        for each in (self._tables, self._configs, self.failures):
            each.pop(broker, None)
        self.masters.discard(broker)
        self.complete.discard(broker)
        self.cluster.forget(broker)
        return known

    async def _read_broker(self, name: str, masters: set[str], complete: set[str]) -> None:
        """Reads a broker's topics and limits; puts it into `masters` if its master says so, `complete` if all."""
        known = self._tables.get(name)
        try:
            # Another look may know by now that its master has gone.
            broker: Endpoint = self.cluster.master(name) if self._masters_only else self.cluster.reader(name)
            broker.refuse_pause()
            table, self._configs[name] = await asyncio.gather(
                self.cluster.read_topics(broker, known=known), self.cluster.read_config(broker)
            )
        except (ClientError, ProtocolError) as error:
            self.failures[name] = error
            return
        if self.cluster.is_master(name, broker.address):
            masters.add(name)
        if self.cluster.shows_all(name, broker.address):
            complete.add(name)
        elif known is not None and table is not known:
            # A slave learns of topics later than its master: what it does not know yet is not gone.
            table = TopicTable({**known.topics, **table.topics}, table.raw)
        self.failures.pop(name, None)
        self._tables[name] = table
        if table is not known:
            self.revision += 1
