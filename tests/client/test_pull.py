"""Pulls: what is asked, and every kind of answer, from real brokers too."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from replicator.client.brokers import max_offset
from replicator.client.endpoint import Endpoint
from replicator.client.pull import GROUP, Subscription, message_at, pull, pull_fields, read
from replicator.client.topics import TopicConfig, delete_topic, write_topic
from replicator.errors import BrokerRefused, ProtocolError, WrongEnds
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.stored import stored
from tests.support.traffic import connected, create_topic, send
from tests.support.worker import until

ENDS = {"nextBeginOffset": "9", "minOffset": "1", "maxOffset": "12"}


def test_a_plain_pull_neither_waits_nor_commits() -> None:
    """A subscription is given, and no offset."""
    fields = pull_fields("T", 3, 17, count=99)
    assert fields["consumerGroup"] == GROUP
    assert (fields["topic"], fields["queueId"], fields["queueOffset"]) == ("T", "3", "17")
    assert (fields["maxMsgNums"], fields["suspendTimeoutMillis"]) == ("99", "0")
    assert int(fields["sysFlag"]) == 4
    assert (fields["subscription"], fields["expressionType"]) == ("*", "TAG")


@pytest.mark.parametrize(("offset", "found"), [(7, True), (6, False)])
async def test_a_message_is_at_its_offset_or_none_is(offset: int, *, found: bool) -> None:
    """A broker may answer with what follows the offset that was asked for."""

    class Broker:
        address = "a:1"

        async def invoke(self, *_: object, **__: object) -> Frame:
            return Frame(0, 1, 1, "", {**ENDS, "nextBeginOffset": "8"}, stored(7))

    message = await message_at(cast("Endpoint", Broker()), "T", 0, offset)
    assert (message is not None) == found


def test_a_long_poll_and_a_filter_say_so() -> None:
    """Suspend bit and time in ms; kind and text of the expression."""
    fields = pull_fields("T", 0, 0, suspend=1.5, subscription=Subscription("SQL92", "a > 5"))
    assert (int(fields["sysFlag"]), fields["suspendTimeoutMillis"]) == (6, "1500")
    assert (fields["expressionType"], fields["subscription"]) == ("SQL92", "a > 5")


@pytest.mark.parametrize("code", [0, 19, 20])
def test_a_broker_cannot_lead_far_behind_its_own_end(code: int) -> None:
    """What is between would count as lost; a little behind it is what came while the broker answered."""
    near = Frame(code=code, opaque=1, flag=1, remark="", fields={**ENDS, "nextBeginOffset": "5012"}, body=b"")
    assert read(near, "a:1").next_offset == 5012
    far = Frame(code=code, opaque=1, flag=1, remark="", fields={**ENDS, "nextBeginOffset": str(2**62)}, body=b"")
    with pytest.raises(ProtocolError, match="and that the queue ends at 12"):
        read(far, "a:1")


@pytest.mark.parametrize("code", [19, 20, 21])
def test_a_queue_that_begins_behind_its_end_is_no_gap(code: int) -> None:
    """The broker refuses its messages until it is restarted: whoever waits for that loses none."""
    fields = {**ENDS, "nextBeginOffset": "0", "minOffset": "500", "maxOffset": "10"}
    with pytest.raises(WrongEnds, match=r"a:1 .* begins at 500 and ends at 10.*restart that broker"):
        read(Frame(code, 1, 1, "", fields, b""), "a:1")


def test_an_unknown_beginning_is_none() -> None:
    assert read(Frame(19, 1, 1, "", {**ENDS, "minOffset": "-1"}, b""), "a:1").min_offset == 0
    ends = {"nextBeginOffset": "0", "minOffset": "-1", "maxOffset": "-1"}
    assert read(Frame(19, 1, 1, "", ends, b""), "a:1").max_offset == 0


@pytest.mark.parametrize("code", [19, 20, 21])
def test_answers_without_messages(code: int) -> None:
    """Their offsets count, whatever stands in the body."""
    pulled = read(Frame(code, 1, 1, "why", ENDS, b"junk"), "a:1")
    assert (pulled.code, pulled.remark, pulled.messages) == (code, "why", [])
    assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (9, 1, 12)


@pytest.mark.parametrize("code", [1, 16, 17, 24, 26, 29, 999])
def test_other_codes_are_refusals(code: int) -> None:
    """With the broker's remark."""
    with pytest.raises(BrokerRefused, match="because") as caught:
        read(Frame(code, 1, 1, "because", {}, b""), "a:1")
    assert (caught.value.code, caught.value.address) == (code, "a:1")


@pytest.mark.parametrize("frame", [Frame(0, 1, 1, "", ENDS, b"junk"), Frame(0, 1, 1, "", {}, b"")])
def test_a_broken_answer_is_a_protocol_error(frame: Frame) -> None:
    """No messages, or no offsets."""
    with pytest.raises(ProtocolError):
        read(frame, "a:1")


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "5.5.0"])
async def test_answers_of_real_brokers(
    clusters: ClusterPool, topic_name: Callable[[str], str], version: str
) -> None:
    """Found, at the end, beyond it, empty, no such queue, no permission, no topic, deleted and recreated."""
    cluster = await clusters.get(ClusterSpec(name="east", version=version))
    topic, closed = topic_name("t"), topic_name("closed")
    await create_topic(cluster, topic, queues=2)
    async with connected(cluster) as client:
        broker = client.master("east-a")
        stored = await send(client, "east-a", topic, 0, [(b"%d" % i, {"KEYS": str(i)}) for i in range(5)])
        assert stored.offset == 0

        async def complete() -> bool:
            return await max_offset(broker, topic, 0) == 5

        await until(complete)
        found = await pull(broker, topic, 0, 0)
        assert (found.code, found.next_offset, found.max_offset) == (Response.SUCCESS, 5, 5)
        assert [message.body[4:] for message in found.messages] == [b"0", b"1", b"2", b"3", b"4"]
        assert len((await pull(broker, topic, 0, 0, count=2)).messages) == 2
        at_end = await pull(broker, topic, 0, 5)
        assert (at_end.code, at_end.next_offset) == (Response.PULL_NOT_FOUND, 5)
        beyond = await pull(broker, topic, 0, 99)
        assert (beyond.code, beyond.next_offset) == (Response.PULL_OFFSET_MOVED, 5)
        assert (await pull(broker, topic, 1, 0)).code == Response.PULL_NOT_FOUND
        assert (await pull(broker, topic, 1, 5)).code == Response.PULL_OFFSET_MOVED
        await write_topic(broker, TopicConfig(name=closed, read_queues=1, write_queues=1, perm=2))
        for name, queue_id, code in (
            (topic, 9, 1 if version == "4.9.7" else Response.INVALID_PARAMETER),
            (closed, 0, Response.NO_PERMISSION),
            ("never-made", 0, Response.TOPIC_NOT_EXIST),
        ):
            with pytest.raises(BrokerRefused) as caught:
                await pull(broker, name, queue_id, 0)
            assert caught.value.code == code
        await delete_topic(broker, topic)
        await create_topic(cluster, topic, queues=2)
        recreated = await pull(broker, topic, 0, 5)
        assert (recreated.code, recreated.min_offset, recreated.max_offset) == (Response.PULL_OFFSET_MOVED, 0, 0)


async def test_a_long_poll_is_answered_when_a_message_comes(
    clusters: ClusterPool, topic_name: Callable[[str], str]
) -> None:
    """Not first when its time is over."""
    import asyncio

    cluster = await clusters.get(ClusterSpec(name="east", version="5.5.0"))
    topic = topic_name("t")
    await create_topic(cluster, topic, queues=1)
    async with connected(cluster) as client:
        async with asyncio.timeout(10):
            poll = asyncio.create_task(pull(client.master("east-a"), topic, 0, 0, suspend=30))
            await send(client, "east-a", topic, 0, [(b"x", {})])
            assert len((await poll).messages) == 1
