"""Order configurations: what name servers tell clients of a topic's queues in place of what brokers register.

`mqadmin updateOrderConf` and `updateTopic -o true` put them into the namespace ORDER_TOPIC_CONFIG of every name
server (`NamesrvUtil`), by topic: `broker-a:8;broker-b:8`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replicator.client.nameservers import NameServers, parsed
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame

__all__ = ["NAMESPACE", "read_orders"]

NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


async def read_orders(nameservers: NameServers) -> Mapping[str, str]:
    """The order configurations of all topics, of the first name server that answers with some, or that it has none.

    Raises:
        BrokerRefused: see there.
        Unreachable, NothingKnown: none of them answers, or serves.
    """
    return await nameservers.read(Request.GET_KVLIST_BY_NAMESPACE, {"namespace": NAMESPACE}, _read)


def _read(address: str, answer: Frame) -> Mapping[str, str]:
    if answer.code == Response.QUERY_NOT_FOUND:
        return {}
    if answer.code != Response.SUCCESS:
        raise BrokerRefused(address, Request.GET_KVLIST_BY_NAMESPACE, answer.code, answer.remark)
    body = parsed(address, answer)
    table = body.get("table") if isinstance(body, dict) else None
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise ProtocolError(f"{address} has answered with no order configurations")
    return table
