"""What else is asked of a broker: its configuration and the ends of its queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from replicator.client.connection import Connection
from replicator.client.endpoint import REQUEST_TIMEOUT, Endpoint
from replicator.client.pull import GROUP, Subscription, pull
from replicator.client.refused import refused
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Request, Response
from replicator.protocol.fastjson import parse
from replicator.protocol.frame import Frame
from replicator.protocol.numbers import as_long
from replicator.protocol.properties import number

__all__ = [
    "DEFAULT_DELAYS",
    "DEFAULT_MAX_MESSAGE",
    "BrokerConfig",
    "check_filter",
    "config_over",
    "confirmed",
    "dispatched",
    "first_after",
    "max_offset",
    "min_offset",
    "offset_at",
    "offset_near",
    "read_config",
    "read_runtime",
    "read_settings",
]

#: Bytes; `MessageStoreConfig.maxMessageSize`.
DEFAULT_MAX_MESSAGE: Final = 4 * 1024 * 1024
#: `MessageStoreConfig.messageDelayLevel`.
DEFAULT_DELAYS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings of a broker that matter to us: which broker of which cluster it is, whether it is a slave now,
    how large a message, or a batch, may be (bytes), and whether it fills light message queues.
    """

    max_message_size: int
    name: str = ""
    cluster: str = ""
    is_slave: bool = False
    has_light_queues: bool = False


async def read_settings(broker: Endpoint) -> dict[str, str]:
    """All settings in force at `broker` (26: `key=value` lines, not JSON). Some hold secrets: never show them."""
    return _settings(await broker.ask(Request.GET_BROKER_CONFIG, {}))


def _settings(answer: Frame) -> dict[str, str]:
    lines = answer.body.decode(errors="replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


async def read_config(broker: Endpoint) -> BrokerConfig:
    """The configuration in force at `broker`, as far as it matters to us."""
    return _config(await read_settings(broker))


def _config(values: Mapping[str, str]) -> BrokerConfig:
    size = number(values.get("maxMessageSize", ""))
    return BrokerConfig(
        DEFAULT_MAX_MESSAGE if size is None else size,
        name=values.get("brokerName", ""),
        cluster=values.get("brokerClusterName", ""),
        is_slave=values.get("brokerRole") == "SLAVE",
        has_light_queues=values.get("enableLmq") == values.get("enableMultiDispatch") == "true",
    )


async def config_over(connection: Connection) -> BrokerConfig:
    """The configuration of the broker that answers over `connection`.

    Raises:
        BrokerRefused: the account may not ask for it.
        Unreachable, RequestTimeout: see there.
    """
    answer = await connection.invoke(Request.GET_BROKER_CONFIG, {}, timeout=REQUEST_TIMEOUT)
    if answer.code != Response.SUCCESS:
        raise refused(connection.address, Request.GET_BROKER_CONFIG, answer)
    return _config(_settings(answer))


async def check_filter(broker: Endpoint, subscription: Subscription) -> None:
    """Whether `broker` understands a filter (46). Pulls with one that it does not bring all messages (measured).

    Raises:
        BrokerRefused: it does not; the remark's first line says where.
    """
    data = {"topic": "any", "subString": subscription.expression, "expressionType": subscription.kind}
    body = {"clientId": GROUP, "group": GROUP, "subscriptionData": data}
    await broker.ask(Request.CHECK_CLIENT_CONFIG, {}, body=[msgspec.json.encode(body)])


async def dispatched(broker: Endpoint) -> tuple[int, int]:
    """Where the commit log of `broker` ends, and how many bytes before that its queues do not show yet (28).

    Raises:
        BrokerRefused: it cannot say; 4.9.7 in its first second answers with code 1.
        ProtocolError: what it says is not understood.
    """
    table = await read_runtime(broker)
    try:
        return as_long(table["commitLogMaxOffset"]), as_long(table["dispatchBehindBytes"])
    except (KeyError, ValueError):
        raise ProtocolError(f"{broker.address} does not report its queue offsets") from None


async def read_runtime(broker: Endpoint) -> dict[str, str]:
    """What `broker` says of itself now (28): version, disks, offsets.

    Raises:
        BrokerRefused: it cannot say; 4.9.7 in its first second answers with code 1.
        ProtocolError: what it says is not understood.
    """
    answer = await broker.ask(Request.GET_BROKER_RUNTIME_INFO, {})
    try:
        return {str(name): str(value) for name, value in parse(answer.body)["table"].items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ProtocolError(f"{broker.address} does not return its runtime info") from None


async def confirmed(broker: Endpoint) -> int | None:
    """Up to which position of its commit log `broker`, a master, shows messages at most (907).

    In controller mode with `allAckInSyncStateSet` that is what all replicas in sync have stored. None: it shows
    all that it has dispatched, or the account may not ask.

    Raises:
        ProtocolError: what it says is not understood.
        Unreachable, RequestTimeout: see there.
    """
    try:
        settings = await read_settings(broker)
        if settings.get("enableControllerMode") != "true" or settings.get("allAckInSyncStateSet") != "true":
            return None
        answer = await broker.ask(Request.GET_BROKER_HA_STATUS, {})
    except BrokerRefused:
        return None
    try:
        status = parse(answer.body)
        acknowledged = [as_long(each["slaveAckOffset"]) for each in status["haConnectionInfo"] if each["inSync"]]
        if len(acknowledged) < as_long(status["inSyncSlaveNums"]):
            return 0  # one of them is away and still counts as in sync: nothing more is shown for now
        return min(acknowledged, default=as_long(status["masterCommitLogMaxOffset"]))
    except (KeyError, TypeError, ValueError):
        raise ProtocolError(f"{broker.address} does not report what its replicas have") from None


async def max_offset(broker: Endpoint, topic: str, queue_id: int) -> int:
    """The offset of the next message. It lags right after sends: no proof of what was stored.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: the answer has no offset.
    """
    return await _offset(broker, Request.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})


async def min_offset(broker: Endpoint, topic: str, queue_id: int) -> int:
    """The offset of the oldest message that is still there; errors as `max_offset`."""
    oldest = await _offset(broker, Request.GET_MIN_OFFSET, {"topic": topic, "queueId": str(queue_id)})
    # -1: one with tiered storage that has none of the queue on its own disk (apache/rocketmq#10193). Pulls know it.
    return oldest if oldest >= 0 else (await pull(broker, topic, queue_id, 0, count=1)).min_offset


async def offset_near(broker: Endpoint, topic: str, queue_id: int, timestamp: int) -> int:
    """What the broker takes for the first message stored at or after `timestamp` (29; ms since the epoch).

    4.9 gives any message of that millisecond, or else the nearest one, which may be older; errors as `max_offset`.
    """
    fields = {"topic": topic, "queueId": str(queue_id), "timestamp": str(timestamp)}
    return max(0, await _offset(broker, Request.SEARCH_OFFSET_BY_TIMESTAMP, fields))


async def offset_at(broker: Endpoint, topic: str, queue_id: int, timestamp: int) -> int:
    """The offset of the first message stored at or after `timestamp` (ms since the epoch), or the queue's end.

    What the broker says, which may be wrong (`offset_near`), is where the search begins; errors as `max_offset`.
    """
    place = (broker, topic, queue_id)
    near = await offset_near(*place, timestamp)
    beside = await pull(*place, max(0, near - 1), count=2)
    seen = {message.queue_offset: message.store_timestamp for message in beside.messages}

    async def older(offset: int) -> bool:
        if offset in seen:
            return seen[offset] < timestamp
        return await first_after(*place, offset, offset + 1, timestamp - 1) > offset

    low, high = beside.min_offset, beside.max_offset
    near = min(max(near, low), high)
    step = 1
    while low < near:
        if await older(near - 1):
            low = near
        else:
            high = near - 1
            near, step = max(low, high - step), step * 2
    step = 1
    while near < high:
        if await older(near):
            low = near + 1
            near, step = min(high, low + step - 1), step * 2
        else:
            high = near
    return await first_after(*place, low, high, timestamp - 1)


async def first_after(broker: Endpoint, topic: str, queue_id: int, low: int, high: int, stored: int) -> int:
    """The first offset in [`low`, `high`) of a queue that was stored after `stored` (ms), or `high`."""
    while low < high:
        middle = (low + high) // 2
        pulled = await pull(broker, topic, queue_id, middle, count=1)
        # What cannot be seen counts as new: rather twice than never.
        if pulled.messages and pulled.messages[0].store_timestamp <= stored:
            low = middle + 1
        else:
            high = middle
    return low


async def _offset(broker: Endpoint, code: int, fields: dict[str, str]) -> int:
    return (await broker.ask(code, fields)).number("offset")
