"""Consumer groups as a broker has them: their settings, what they may not read, who consumes in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from replicator.client.endpoint import Endpoint
from replicator.client.request_modes import Modes, read_request_modes
from replicator.client.tables import TableRequest, members, read_pages
from replicator.client.topics import READABLE
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol import fastjson
from replicator.protocol.codes import Request, Response
from replicator.protocol.numbers import as_long

__all__ = ["GroupTable", "consumers", "delete_group", "forbid", "read_groups", "write_group"]

_TABLE: Final = TableRequest(
    Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    "subscriptionGroupTable",
    "groupSeq",
    "maxGroupNum",
    "totalGroupNum",
)


@dataclass(frozen=True, slots=True)
class GroupTable:
    """All groups of one broker: the settings of each, called as in `SubscriptionGroupConfig`.

    `forbidden` are per group the topics that it may not read, `modes` the request modes; None: the broker knows of
    none.
    """

    groups: Mapping[str, Mapping[str, Any]]
    forbidden: Mapping[str, frozenset[str]]
    raw: tuple[bytes, ...]
    modes: Modes | None = None


async def read_groups(broker: Endpoint, *, known: GroupTable | None = None) -> GroupTable:
    """All groups of `broker`, system groups too. `known` itself when nothing has changed.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no table of groups.
    """
    pages = await read_pages(broker, _TABLE, known=known.raw if known else ())
    modes = await read_request_modes(broker)
    if pages is None:
        assert known is not None  # noqa: S101 - only what is known can be unchanged
        return known if known.modes == modes else replace(known, modes=modes)
    forbidden = members(pages.last.get("forbiddenTable") or {})
    return GroupTable(
        {name: members(config) for name, config in pages.entries.items()},
        {name: _unreadable(name, topics) for name, topics in forbidden.items()},
        pages.raw,
        modes,
    )


def _unreadable(group: str, topics: object) -> frozenset[str]:
    try:
        return frozenset(topic for topic, bits in members(topics).items() if as_long(bits) & READABLE)
    except ValueError:
        raise ProtocolError(f"group {group!r} has unreadable forbidden topics") from None


async def write_group(broker: Endpoint, config: Mapping[str, Any]) -> None:
    """Creates the group `config["groupName"]` on a master, or changes it to be so.

    Args:
        config: `attributes` in it have a sign in front: + sets, - removes.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    await broker.ask(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body=(msgspec.json.encode(config),))


async def delete_group(broker: Endpoint, name: str) -> None:
    """Deletes a group, with its offsets where the broker knows how to."""
    await broker.ask(Request.DELETE_SUBSCRIPTIONGROUP, {"groupName": name, "cleanOffset": "true"})


async def forbid(broker: Endpoint, group: str, topic: str, *, readable: bool) -> None:
    """Forbids a group to read a topic, or allows it again; 5.x only.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    fields = {"group": group, "topic": topic, "readable": "true" if readable else "false"}
    await broker.ask(Request.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)


async def consumers(broker: Endpoint, group: str) -> list[str]:
    """Ids of the clients that consume in `group` now, as this broker knows them.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no list of clients.
    """
    try:
        answer = await broker.ask(Request.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    except BrokerRefused as error:
        if error.code == Response.SYSTEM_ERROR and "no consumer" in error.remark:
            return []
        raise
    found = members(fastjson.parse(answer.body)).get("consumerIdList") or []
    if not isinstance(found, list):
        raise ProtocolError(f"group {group!r} has an unreadable list of consumers")
    return found
