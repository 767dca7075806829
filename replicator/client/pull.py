"""Pulls (11): ask for the messages of one queue from an offset on, and read the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from replicator.client.endpoint import Endpoint
from replicator.client.refused import refused, remark_in
from replicator.errors import ProtocolError, WrongEnds
from replicator.protocol.codes import Request, Response, is_denied
from replicator.protocol.frame import Frame
from replicator.protocol.message import StoredMessage, born_hosts
from replicator.protocol.uniform_run import messages_in

__all__ = [
    "EVERYTHING",
    "GROUP",
    "MAX_PULL",
    "PULL_TIMEOUT",
    "SUSPEND",
    "Pulled",
    "Subscription",
    "message_at",
    "pull",
    "pull_fields",
    "pull_with_body",
    "pull_with_host",
    "read",
]

#: The consumer group that pulls are made in. Brokers make groups with this prefix by themselves even
#: where `autoCreateSubscriptionGroup=false` (`MixAll.isSysConsumerGroup`). No offset is committed for it.
GROUP: Final = "CID_RMQ_SYS_REPLICATOR"

#: Messages asked for at most in one pull, as in RocketMQ's own clients. Brokers give 32 from memory and
#: 8 from disk unless their `maxTransfer*` settings were raised.
MAX_PULL: Final = 1024

#: Seconds that a broker holds a pull for which there is no message yet.
SUSPEND: Final = 20.0
#: Seconds until an answer is overdue, beyond what the broker was asked to hold it.
PULL_TIMEOUT: Final = 10.0

_LONG_POLL: Final = 0x2
_SUBSCRIPTION: Final = 0x4


class Subscription(NamedTuple):
    """What the broker filters by: `TAG` with `a || b` or `*`, or `SQL92` with an expression."""

    kind: str = "TAG"
    expression: str = "*"


#: No filter.
EVERYTHING: Final = Subscription()


class Pulled(NamedTuple):
    """The answer to one pull.

    `code` is SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY or PULL_OFFSET_MOVED; offsets are the
    queue's own, `next_offset` is where to go on and `max_offset` that of the next message to be stored.
    """

    code: int
    remark: str
    messages: Sequence[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    size: int


def pull_fields(
    topic: str,
    queue_id: int,
    offset: int,
    *,
    count: int = 32,
    suspend: float = 0.0,
    subscription: Subscription = EVERYTHING,
) -> dict[str, str]:
    """The request's extension fields.

    Args:
        offset: queue offset, next to read.
        count: messages wanted; brokers cap it.
        suspend: seconds that the broker may hold the request until a message comes.
    """
    return {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(_SUBSCRIPTION | (_LONG_POLL if suspend else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(int(suspend * 1000)),
        "subscription": subscription.expression,
        "subVersion": "0",
        "expressionType": subscription.kind,
    }


_ANSWERS: Final = frozenset(
    {
        Response.SUCCESS,
        Response.PULL_NOT_FOUND,
        Response.PULL_RETRY_IMMEDIATELY,
        Response.PULL_OFFSET_MOVED,
    }
)

#: Offsets behind the end that an answer names, which it may nevertheless have covered.
_MEANWHILE: Final = 65_536

_DENIED: Final = "it must be readable, and the replicator's account needs SUB on it"


def read(frame: Frame, address: str) -> Pulled:
    """What is in an answer.

    Raises:
        BrokerRefused: the broker could not serve the pull.
        ProtocolError: the answer is not one to a pull.
        WrongEnds: the broker contradicts itself.
    """
    code = frame.code
    if code not in _ANSWERS:
        hint = _DENIED if is_denied(code, frame.remark) else ""
        raise refused(address, Request.PULL_MESSAGE, frame, hint=hint)
    pulled = Pulled(
        code,
        remark_in(frame),
        messages_in(frame.body) if code == Response.SUCCESS else [],
        frame.number("nextBeginOffset"),
        max(0, frame.number("minOffset")),
        max(0, frame.number("maxOffset")),
        len(frame.body),
    )
    if pulled.min_offset > pulled.max_offset:
        # For moments while a broker makes a consume queue (`ConsumeQueue.fillPreBlank`). And up to 5.5.0 when a
        # commit log was cut that had all of a queue (apache/rocketmq#10417): what comes into the queue then is
        # refused as too old until the broker is restarted. That is not a gap.
        raise WrongEnds(address, pulled.min_offset, pulled.max_offset)
    # A broker looks for the end first, and then reads what may have come meanwhile.
    if code != Response.PULL_OFFSET_MOVED and pulled.next_offset > pulled.max_offset + _MEANWHILE:
        raise ProtocolError(
            f"{address} says to go on at {pulled.next_offset}, and that the queue ends at {pulled.max_offset}"
        )
    return pulled


async def pull(
    broker: Endpoint,
    topic: str,
    queue_id: int,
    offset: int,
    *,
    count: int = 32,
    suspend: float = 0.0,
    subscription: Subscription = EVERYTHING,
) -> Pulled:
    """Pulls once.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout, ProtocolError: see there, and `read`.
    """
    fields = pull_fields(topic, queue_id, offset, count=count, suspend=suspend, subscription=subscription)
    return (await _answer(broker, fields, suspend=suspend))[0]


async def pull_with_body(
    broker: Endpoint, topic: str, queue_id: int, offset: int, *, count: int = 32
) -> tuple[Pulled, bytes]:
    """Pulls once; also the body of the answer, for what messages do not keep of it. Errors as `pull`."""
    return await _answer(broker, pull_fields(topic, queue_id, offset, count=count))


async def _answer(broker: Endpoint, fields: dict[str, str], *, suspend: float = 0.0) -> tuple[Pulled, bytes]:
    frame = await broker.invoke(Request.PULL_MESSAGE, fields, timeout=PULL_TIMEOUT + suspend)
    return read(frame, broker.address), frame.body


async def pull_with_host(
    broker: Endpoint, topic: str, queue_id: int, offset: int
) -> tuple[Pulled, StoredMessage | None, str]:
    """Pulls the message at `offset` alone, if there is one, and who has sent it. Errors as `pull`."""
    pulled, body = await pull_with_body(broker, topic, queue_id, offset, count=1)
    message = _at(offset, pulled)
    return pulled, message, "" if message is None else born_hosts(body)[offset]


async def message_at(broker: Endpoint, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
    """The message at `offset`; None: there is none there, any more or yet. Errors as `pull`."""
    return _at(offset, await pull(broker, topic, queue_id, offset, count=1))


def _at(offset: int, pulled: Pulled) -> StoredMessage | None:
    return next((message for message in pulled.messages if message.queue_offset == offset), None)
