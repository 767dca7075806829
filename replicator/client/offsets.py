"""How far consumer groups are in the queues of a broker: read all, commit one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replicator.client.endpoint import Endpoint
from replicator.client.refused import refused
from replicator.client.tables import TABLE_TIMEOUT, members
from replicator.errors import ProtocolError
from replicator.protocol import fastjson
from replicator.protocol.codes import Request, Response
from replicator.protocol.numbers import as_long

__all__ = ["OffsetTable", "commit_offset", "offset_in", "query_offset", "read_offsets"]

#: With this a broker says that it has ignored a commit (`ConsumerManageProcessor.updateConsumerOffset`).
_RESET: Final = "Offset has been previously reset"


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """Per (group, topic) the offset that is next to consume in each queue of one broker.

    `unread` says why it is not known what POP consumers have done, where that had to be asked for and was refused.
    `sessions` offsets are kept apart: those of groups that are light message queues themselves, as MQTT's sessions.
    """

    offsets: Mapping[tuple[str, str], Mapping[int, int]]
    raw: bytes
    unread: str = ""
    sessions: int = 0


def offset_in(tables: Mapping[str, OffsetTable], broker: str, group: str, topic: str, queue_id: int) -> int | None:
    """The offset of a group in a queue of a broker, by the brokers' `tables`; None where it has none."""
    table = tables.get(broker)
    queues = None if table is None else table.offsets.get((group, topic))
    return None if queues is None else queues.get(queue_id)


async def read_offsets(broker: Endpoint, *, known: OffsetTable | None = None) -> OffsetTable:
    """All offsets that `broker` keeps (43). `known` itself when nothing has changed.

    Without those that 5.x keeps of consumers in broadcasting mode (`enableBroadcastOffsetStore`), each for itself:
    the least of a group's clients is under `group@broadcast`, the name of no group.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no table of offsets.
    """
    answer = await broker.ask(Request.GET_ALL_CONSUMER_OFFSET, {}, timeout=TABLE_TIMEOUT)
    if known is not None and known.raw == answer.body:
        return known
    told = members(fastjson.parse(answer.body))
    table = members(told.get("offsetTable"))
    offsets = {}
    for key, queues in table.items():
        topic, at, group = key.partition("@")  # neither name can have an @
        if not at:
            raise ProtocolError(f"an offset table with the key {key!r}, which is not topic@group")
        if "@" in group:
            continue
        try:
            offsets[group, topic] = {as_long(queue): as_long(offset) for queue, offset in members(queues).items()}
        except ValueError:
            raise ProtocolError(f"unreadable offsets of {key!r}") from None
    return OffsetTable(offsets, answer.body, sessions=len(members(told.get("lmqOffsetTable", {}))))


async def query_offset(broker: Endpoint, group: str, topic: str, queue_id: int) -> int | None:
    """The offset that is next to consume (14); None: `broker` keeps none.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: the answer has no offset.
    """
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "setZeroIfNotFound": "false"}
    answer = await broker.invoke(Request.QUERY_CONSUMER_OFFSET, fields)
    if answer.code == Response.QUERY_NOT_FOUND:
        return None
    if answer.code != Response.SUCCESS:
        raise refused(broker.address, Request.QUERY_CONSUMER_OFFSET, answer)
    return answer.number("offset")


async def commit_offset(broker: Endpoint, group: str, topic: str, queue_id: int, offset: int) -> None:
    """Makes `offset` the next to consume (15). 5.3 and newer refuse groups and topics that they do not have.

    Raises:
        BrokerRefused: also where an administrator has reset the group, until a consumer takes that: 5.x then
            ignores what is committed, and calls it a success (`useServerSideResetOffset`).
        Unreachable, RequestTimeout: see there.
    """
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
    answer = await broker.ask(Request.UPDATE_CONSUMER_OFFSET, fields)
    if answer.remark == _RESET:
        raise refused(
            broker.address,
            Request.UPDATE_CONSUMER_OFFSET,
            answer,
            hint="the group was reset at the target; a consumer must take that first, or the broker be restarted",
        )
