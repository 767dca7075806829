"""Which broker answers over a connection: asked once for each, since an address may change hands between two."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from replicator.client.brokers import BrokerConfig, config_over
from replicator.client.cluster import Cluster
from replicator.client.connection import Connection
from replicator.errors import BrokerRefused, ReplicatorError, WrongBroker

__all__ = ["BrokerIdentities"]


class BrokerIdentities:
    """Checks brokers of any cluster; many who ask about one connection ask the broker once."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Connection, asyncio.Task[BrokerConfig]] = WeakKeyDictionary()

    async def check(self, cluster: Cluster, broker: str, connection: Connection, *, master: bool) -> None:
        """Returns when `connection` is known to lead to `broker` of `cluster`.

        An account that may not read the broker's configuration has to believe the name servers.

        Args:
            master: it is to lead to the master. What the name servers said may be older than an election.

        Raises:
            WrongBroker: it leads to another one, or to a slave instead of the master.
            Unreachable, RequestTimeout: see there.
        """
        try:
            found = await self._config(connection)
        except BrokerRefused:
            await _ask_name_servers(cluster, broker, connection)
            return
        if found.name != broker or found.cluster != cluster.known_as:
            raise WrongBroker(
                connection.address,
                f"broker {found.name} of cluster {found.cluster} answers there, not {broker} of {cluster.known_as}",
            )
        if master and found.is_slave:
            self._asked.pop(connection, None)  # it may be elected while the connection lasts
            raise WrongBroker(
                connection.address, f"{broker} is a slave there now; the name servers will say who is its master"
            )

    async def _config(self, connection: Connection) -> BrokerConfig:
        asked = self._asked.get(connection)
        if asked is None or (asked.done() and asked.exception() is not None):
            asked = asyncio.create_task(config_over(connection), name=f"identity of {connection.address}")
            self._asked[connection] = asked
        return await asyncio.shield(asked)


async def _ask_name_servers(cluster: Cluster, broker: str, connection: Connection) -> None:
    before = cluster.brokers().get(broker)
    try:
        await cluster.refresh()
    except ReplicatorError as error:
        raise WrongBroker(connection.address, f"whether it is {broker} is not known: {error.message}") from None
    if cluster.brokers().get(broker) != before:
        raise WrongBroker(connection.address, f"the name servers now have {broker} at another address")
