"""What else is asked of a broker: its configuration and the ends of its queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replicator.client.endpoint import Endpoint
from replicator.errors import ProtocolError
from replicator.protocol.codes import Request
from replicator.protocol.fastjson import parse

__all__ = ["BrokerConfig", "dispatched", "max_offset", "min_offset", "offset_at", "read_config", "read_settings"]

#: Bytes; `MessageStoreConfig.maxMessageSize`.
_DEFAULT_MAX_MESSAGE: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings of a broker that matter to us."""

    max_message_size: int
    property_filter: bool


async def read_settings(broker: Endpoint) -> dict[str, str]:
    """All settings in force at `broker` (26: `key=value` lines, not JSON). Some hold secrets: never show them."""
    answer = await broker.ask(Request.GET_BROKER_CONFIG, {})
    lines = answer.body.decode(errors="replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


async def read_config(broker: Endpoint) -> BrokerConfig:
    """The configuration in force at `broker`, as far as it matters to us."""
    values = await read_settings(broker)
    size = values.get("maxMessageSize", "")
    return BrokerConfig(
        max_message_size=int(size) if size.isdecimal() else _DEFAULT_MAX_MESSAGE,
        property_filter=values.get("enablePropertyFilter") == "true",
    )


async def dispatched(broker: Endpoint) -> tuple[int, int]:
    """Where the commit log of `broker` ends, and how many bytes before that its queues do not show yet (28).

    Raises:
        BrokerRefused: it cannot say; 4.9.7 in its first second answers with code 1.
        ProtocolError: what it says is not understood.
    """
    answer = await broker.ask(Request.GET_BROKER_RUNTIME_INFO, {})
    try:
        table = parse(answer.body)["table"]
        return int(table["commitLogMaxOffset"]), int(table["dispatchBehindBytes"])
    except (KeyError, TypeError, ValueError):
        raise ProtocolError(f"{broker.address} does not tell how far its queues are") from None


async def max_offset(broker: Endpoint, topic: str, queue_id: int) -> int:
    """The offset of the next message. It lags right after sends: no proof of what was stored."""
    return await _offset(broker, Request.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})


async def min_offset(broker: Endpoint, topic: str, queue_id: int) -> int:
    """The offset of the oldest message that is still there."""
    return await _offset(broker, Request.GET_MIN_OFFSET, {"topic": topic, "queueId": str(queue_id)})


async def offset_at(broker: Endpoint, topic: str, queue_id: int, timestamp: int) -> int:
    """The offset of the first message stored at or after `timestamp` (ms since the epoch)."""
    fields = {"topic": topic, "queueId": str(queue_id), "timestamp": str(timestamp)}
    return await _offset(broker, Request.SEARCH_OFFSET_BY_TIMESTAMP, fields)


async def _offset(broker: Endpoint, code: int, fields: dict[str, str]) -> int:
    return (await broker.ask(code, fields)).number("offset")
