"""Order configurations: what name servers tell clients of a topic's queues in place of what brokers register.

`mqadmin updateOrderConf` and `updateTopic -o true` put them into the namespace ORDER_TOPIC_CONFIG of every name
server (`NamesrvUtil`), by topic: `broker-a:8;broker-b:8`. Each name server keeps its own, and tells no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from replicator.client.nameservers import NameServers, parsed
from replicator.client.refused import refused
from replicator.errors import ProtocolError
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame

__all__ = ["NAMESPACE", "OrderTables", "delete_order", "read_orders", "write_order"]

NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class OrderTables(NamedTuple):
    """The order configurations of a cluster: `tables` has per name server those of its topics; `failures` says of
    those name servers that did not give theirs why.
    """

    tables: Mapping[str, Mapping[str, str]]
    failures: Mapping[str, str]


async def read_orders(nameservers: NameServers) -> OrderTables:
    """Asks all name servers at once (219); each for at most five seconds.

    Raises:
        Unreachable: an address server does not say where they are.
    """
    return OrderTables(
        *await nameservers.read_each(Request.GET_KVLIST_BY_NAMESPACE, {"namespace": NAMESPACE}, _read)
    )


def _read(address: str, answer: Frame) -> Mapping[str, str]:
    if answer.code == Response.QUERY_NOT_FOUND:  # nobody has ever put one there
        return {}
    if answer.code != Response.SUCCESS:
        raise refused(address, Request.GET_KVLIST_BY_NAMESPACE, answer)
    body = parsed(address, answer)
    table = body.get("table") if isinstance(body, dict) else None
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise ProtocolError(f"{address} has answered with no order configurations")
    return table


async def write_order(nameservers: NameServers, address: str, topic: str, value: str) -> None:
    """Puts the configuration of a topic (100) at the name server at `address` alone; errors as `ask_one`."""
    await nameservers.ask_one(
        address, Request.PUT_KV_CONFIG, {"namespace": NAMESPACE, "key": topic, "value": value}
    )


async def delete_order(nameservers: NameServers, address: str, topic: str) -> None:
    """Removes it (102), if it is there; otherwise as `write_order`."""
    await nameservers.ask_one(address, Request.DELETE_KV_CONFIG, {"namespace": NAMESPACE, "key": topic})
