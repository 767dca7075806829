"""Pulls from light message queues: what is in them says where it is stored, and at which offset it is there."""

from __future__ import annotations

from typing import Any, cast

import pytest

from replicator.client.endpoint import Endpoint
from replicator.client.light_queue import LightMessage, pull_light
from replicator.errors import ProtocolError
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from replicator.protocol.message import parse_messages
from replicator.protocol.properties import LIGHT_OFFSETS, LIGHT_QUEUES
from tests.protocol.test_message import stored

NAME = "%LMQ%x"


class Broker:
    """Answers a pull with `body`."""

    address = "a:1"

    def __init__(self, code: int, body: bytes) -> None:
        self.answer = Frame(code, 1, 1, "", {"nextBeginOffset": "9", "minOffset": "5", "maxOffset": "9"}, body)
        self.asked: dict[str, str] = {}

    async def invoke(self, _: object, fields: dict[str, str], **__: Any) -> Frame:
        self.asked = fields
        return self.answer


def light(at: int, *, offset: int, topic: bytes) -> bytes:
    raw = b"%b\x01%%LMQ%%w,%b\x02%b\x0133,%d\x02" % (LIGHT_QUEUES, NAME.encode(), LIGHT_OFFSETS, at)
    return stored(properties=raw, offset=offset, topic=topic)


async def test_each_has_its_offset_there_and_its_place() -> None:
    body = light(7, offset=100, topic=b"T") + light(8, offset=3, topic=b"U")
    broker = Broker(Response.SUCCESS, body)
    pulled = await pull_light(cast("Endpoint", broker), NAME, 7, count=2)
    first, second = parse_messages(body)
    assert pulled.messages == [LightMessage(7, "T", 3, first), LightMessage(8, "U", 3, second)]
    assert (pulled.min_offset, pulled.max_offset) == (5, 9)
    assert (broker.asked["topic"], broker.asked["queueId"], broker.asked["queueOffset"]) == (NAME, "0", "7")


async def test_none_is_there() -> None:
    pulled = await pull_light(cast("Endpoint", Broker(Response.PULL_NOT_FOUND, b"")), NAME, 9)
    assert pulled.messages == []


async def test_a_message_that_is_not_in_it_is_refused() -> None:
    broker = cast("Endpoint", Broker(Response.SUCCESS, stored()))
    with pytest.raises(ProtocolError, match="does not say at which offset"):
        await pull_light(broker, NAME, 7)
