"""Applications that are connected to a broker: producers, and the consumers of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replicator.client.endpoint import Endpoint
from replicator.client.tables import members
from replicator.errors import BrokerRefused, ProtocolError
from replicator.observe.printable import printable
from replicator.protocol import fastjson
from replicator.protocol.codes import Request, Response

__all__ = ["ConsumerClients", "read_consumer_clients", "read_producers"]


@dataclass(frozen=True, slots=True)
class ConsumerClients:
    """The consumers of a group that are connected to a broker: where they are, and the topics they read.

    `model` is CLUSTERING or BROADCASTING.
    """

    hosts: frozenset[str]
    topics: frozenset[str]
    model: str


async def read_producers(broker: Endpoint) -> Mapping[str, frozenset[str]]:
    """By its name, the clients of each producer group that is connected, as `10.0.0.1:4711 10.0.0.1@77#3` (328).

    Brokers know no topics of theirs.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no table of producers.
    """
    answer = await broker.ask(Request.GET_ALL_PRODUCER_INFO, {})
    table = members(fastjson.parse(answer.body)).get("data") or {}
    return {group: _clients(clients) for group, clients in members(table).items() if clients}


async def read_consumer_clients(broker: Endpoint, group: str) -> ConsumerClients | None:
    """The consumers in `group` that are connected to `broker` (203); None: none is.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no list of consumers.
    """
    try:
        answer = await broker.ask(Request.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    except BrokerRefused as error:
        if error.code == Response.CONSUMER_NOT_ONLINE:
            return None
        raise
    found = members(fastjson.parse(answer.body))
    return ConsumerClients(
        _hosts(found.get("connectionSet") or [], "clientAddr"),
        frozenset(members(found.get("subscriptionTable") or {})),
        str(found.get("messageModel") or ""),
    )


def _clients(clients: Sequence[object]) -> frozenset[str]:
    """Address and client id of each, by which an operator finds its process."""
    try:
        found = [members(each) for each in clients]
        return frozenset(printable(f"{str(each['remoteIP']).lstrip('/')} {each['clientId']}") for each in found)
    except (KeyError, TypeError):
        raise ProtocolError("a list of producers that is unreadable") from None


def _hosts(clients: Sequence[object], name: str) -> frozenset[str]:
    try:
        return frozenset(str(members(each)[name]).lstrip("/").rpartition(":")[0] for each in clients)
    except (KeyError, TypeError):
        raise ProtocolError("a list of clients that is unreadable") from None
