"""The dead-letter topic: on the broker that refused the message, and made again when somebody has deleted it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from replicator.client.cluster import Cluster
from replicator.errors import BrokerRefused
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from replicator.protocol.message import StoredMessage
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.queue_map import Queue

MESSAGE = StoredMessage(7, 0, 0, 1, 2, 0, 0, bytes(4), b"")
SOURCE = Queue("a", 0)


class Broker:
    """A broker that makes no topics by itself; `asked` are the requests that it served."""

    address = "target:10909"

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.asked: list[int] = []

    async def ask(self, code: int, fields: Mapping[str, str]) -> Frame:
        assert code == Request.UPDATE_AND_CREATE_TOPIC
        self.asked.append(code)
        self.topics.add(fields["topic"])
        return Frame(0, 1, 1, "", {}, b"")

    async def invoke(self, code: int, fields: Mapping[str, str], **_more: Any) -> Frame:
        self.asked.append(code)
        there = fields["b"] in self.topics
        return Frame(0 if there else Response.TOPIC_NOT_EXIST, 1, 1, "", {"queueOffset": "0"} if there else {}, b"")


def letters_to(brokers: Mapping[str, Broker], *, limit: int = 4096) -> DeadLetters:
    known = {name: SimpleNamespace(master=name) for name in brokers}
    target = SimpleNamespace(writer=brokers.__getitem__, brokers=lambda: known)
    return DeadLetters(cast("Cluster", target), "L", cluster="s", limit=lambda _: limit)


async def test_a_topic_that_was_deleted_is_made_again() -> None:
    """The first attempt finds out, the next one makes it."""
    broker = Broker()
    letters = letters_to({"t": broker})
    await letters.put("t", "T", SOURCE, MESSAGE, "too large")
    await letters.put("t", "T", SOURCE, MESSAGE, "too large")
    assert broker.asked == [Request.UPDATE_AND_CREATE_TOPIC, *[Request.SEND_BATCH_MESSAGE] * 2]
    broker.topics.clear()
    with pytest.raises(BrokerRefused):
        await letters.put("t", "T", SOURCE, MESSAGE, "too large")
    await letters.put("t", "T", SOURCE, MESSAGE, "too large")
    assert broker.topics == {"L"}


async def test_a_broker_that_is_away_stops_no_other_ones_letters() -> None:
    """Each goes to the broker that refused the message."""
    away, here = Broker(), Broker()
    letters = letters_to({"t-a": away, "t-b": here})
    await letters.put("t-b", "T", SOURCE, MESSAGE, "too large")
    assert here.asked == [Request.UPDATE_AND_CREATE_TOPIC, Request.SEND_BATCH_MESSAGE]
    assert not away.asked


async def test_a_body_that_the_broker_no_longer_takes_is_left_out() -> None:
    """Its limit became lower since it was asked for it: the letter is refused first, and then has no body."""
    sent: list[bytes] = []

    class Lowered(Broker):
        async def invoke(self, code: int, fields: Mapping[str, str], **more: Any) -> Frame:
            (body,) = more["body"]
            sent.append(body)
            if b"much" in body:
                return Frame(Response.MESSAGE_ILLEGAL, 1, 1, "too large", {}, b"")
            return await super().invoke(code, fields, **more)

    letters = letters_to({"t": Lowered()}, limit=10_000)
    await letters.put("t", "T", SOURCE, replace(MESSAGE, body=bytes([0, 0, 0, 4]) + b"much"), "too large")
    assert [b"much" in body for body in sent] == [True, False]
    assert b"__RPL_OMITTED\x01body" in sent[1]
    assert b"__RPL_OMITTED" not in sent[0]
