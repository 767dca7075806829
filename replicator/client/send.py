"""Sends: the batch request (320), and single sends (310) where a batch is refused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.pull import GROUP
from replicator.client.refused import refused
from replicator.protocol.batch import header_fields
from replicator.protocol.codes import STORED, Request
from replicator.protocol.frame import Frame

__all__ = ["SEND_TIMEOUT", "Stored", "new_fields", "send_batch", "send_single"]

#: Seconds until a send's outcome counts as unknown, once the broker's system has it. A busy broker answers in 0.2 s
#: by itself (`waitTimeMillsInSendQueue`); a synchronous flush or slave takes up to 5 s.
SEND_TIMEOUT: Final = 10.0


class Stored(NamedTuple):
    """Where the broker put what was sent: `offset` is the first message's queue offset."""

    code: int
    offset: int


def new_fields(topic: str, queue_id: int, *, group: str = GROUP) -> dict[str, str]:
    """The fields of a batch of messages that are born now, not copied."""
    return header_fields(
        group=group,
        topic=topic,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),
        reconsume_times=0,
    )


async def send_batch(broker: Endpoint | Connection, fields: dict[str, str], body: Sequence[bytes]) -> Stored:
    """Sends a batch; its messages land contiguously.

    Args:
        fields, body: made by `replicator.protocol.batch`.

    Raises:
        BrokerRefused: nothing was stored, as far as the broker says.
        Unreachable, RequestTimeout, ProtocolError: the outcome is unknown.
    """
    return _stored(
        broker.address,
        Request.SEND_BATCH_MESSAGE,
        await broker.invoke(Request.SEND_BATCH_MESSAGE, fields, body=body, timeout=SEND_TIMEOUT),
    )


async def send_single(broker: Endpoint | Connection, fields: dict[str, str], body: bytes) -> Stored:
    """Sends one message with request 310; errors as `send_batch`."""
    return _stored(
        broker.address,
        Request.SEND_MESSAGE_V2,
        await broker.invoke(Request.SEND_MESSAGE_V2, fields, body=(body,), timeout=SEND_TIMEOUT),
    )


def _stored(address: str, request: int, frame: Frame) -> Stored:
    if frame.code not in STORED:
        raise refused(address, request, frame)
    return Stored(frame.code, frame.number("queueOffset"))
