"""Which broker answers over a connection: asked before anything else, since an address may change hands."""

from __future__ import annotations

from replicator.aio.clock import now
from replicator.client.brokers import config_over
from replicator.client.connection import Connection
from replicator.errors import BrokerRefused, WrongBroker

__all__ = ["is_broker"]


async def is_broker(connection: Connection, broker: str, cluster: str, *, master: bool) -> bool:
    """Whether `connection` is known to lead to `broker` of `cluster`; False where its account may not ask.

    Args:
        master: it is to lead to the master. What the name servers said may be older than an election.

    Raises:
        WrongBroker: it leads to another one, or to a slave instead of the master.
        Unreachable, RequestTimeout: see there.
    """
    asked = now()
    try:
        found = await config_over(connection)
    except BrokerRefused:
        return False
    connection.line.measured(now() - asked)
    if found.name != broker or found.cluster != cluster:
        raise WrongBroker(
            connection.address,
            f"broker {found.name} of cluster {found.cluster} answers there, not {broker} of {cluster}",
        )
    if master and found.is_slave:
        raise WrongBroker(
            connection.address, f"{broker} is a slave there now; the name servers will say who is its master"
        )
    return True
