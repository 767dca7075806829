"""What a broker holds back: how far its delay levels are delivered, and how many messages its timer has."""

from __future__ import annotations

from typing import Final

from replicator.client.endpoint import Endpoint
from replicator.client.tables import members
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol import fastjson
from replicator.protocol.codes import Request, Response
from replicator.protocol.numbers import as_long

__all__ = ["delivered_levels", "timer_counts", "timer_read_until"]

#: What brokers without a timer answer: 4.9 does not know the request, 5.x has none to ask.
_NO_TIMER: Final = (Response.REQUEST_CODE_NOT_SUPPORTED, Response.SYSTEM_ERROR)


async def delivered_levels(broker: Endpoint) -> dict[int, int]:
    """Per delay level the offset in its queue of SCHEDULE_TOPIC_XXXX that is delivered next (45).

    A level is missing while nothing of it was ever delivered. Level n has queue n - 1.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no table of offsets.
    """
    answer = await broker.ask(Request.GET_ALL_DELAY_OFFSET, {})
    table = members(members(fastjson.parse(answer.body)).get("offsetTable"))
    try:
        return {as_long(level): as_long(offset) for level, offset in table.items()}
    except ValueError:
        raise ProtocolError(f"unreadable delay offsets of {broker.address}") from None


async def timer_counts(broker: Endpoint) -> dict[str, int]:
    """Per topic how many messages wait in the timer of `broker` (61), by its own count; empty if it has none.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no such table.
    """
    try:
        answer = await broker.ask(Request.GET_TIMER_METRICS, {})
    except BrokerRefused as refused:
        if refused.code in _NO_TIMER:
            return {}
        raise
    table = members(members(fastjson.parse(answer.body)).get("timingCount"))
    try:
        return {topic: as_long(members(entry)["count"]) for topic, entry in table.items()}
    except (KeyError, ValueError):
        raise ProtocolError(f"unreadable timer counts of {broker.address}") from None


async def timer_read_until(broker: Endpoint) -> int:
    """Up to which due time the timer of `broker` has delivered, by what it has saved (60; ms); 0 if it has none.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    try:
        answer = await broker.ask(Request.GET_TIMER_CHECK_POINT, {})
    except BrokerRefused as refused:
        if refused.code in _NO_TIMER:
            return 0
        raise
    return int.from_bytes(bytes(answer.body)[:8])
