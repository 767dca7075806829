"""A broker's configuration and the ends of its queues."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.client.brokers import BrokerConfig, check_filter, max_offset, min_offset, offset_at, read_config
from replicator.client.endpoint import Endpoint
from replicator.client.pull import Subscription, pull
from replicator.client.security import Security
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from replicator.sandbox import ClusterSpec
from tests.client.peer import Peer
from tests.support.clusters import ClusterPool
from tests.support.stored import stored
from tests.support.traffic import connected, create_topic, send
from tests.support.worker import until

DEFAULT = 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"maxMessageSize=65536\nenablePropertyFilter=true\n", BrokerConfig(65536)),
        (b"brokerName=a\r\nmaxMessageSize=1\r\n", BrokerConfig(1, name="a")),
        (b"brokerName=a\nbrokerClusterName=c", BrokerConfig(DEFAULT, name="a", cluster="c")),
        (b"enableLmq=true\nenableMultiDispatch=true", BrokerConfig(DEFAULT, has_light_queues=True)),
        (b"enableLmq=true\nenableMultiDispatch=false", BrokerConfig(DEFAULT)),
        (b"maxMessageSize=\nx\n=\nenablePropertyFilter=false", BrokerConfig(DEFAULT)),
        (b"maxMessageSize=-1\n", BrokerConfig(DEFAULT)),
        (b"\xff=\xfe\n", BrokerConfig(DEFAULT)),
        (b"", BrokerConfig(DEFAULT)),
    ],
)
async def test_a_configuration_is_lines_of_names_and_values(body: bytes, expected: BrokerConfig) -> None:
    """What is missing or not a number has RocketMQ's default."""
    async with Peer(lambda session, request: session.answer(request, body=body)) as peer:
        endpoint = Endpoint(peer.address, Security())
        assert await read_config(endpoint) == expected
        await endpoint.close()


async def test_an_answer_without_an_offset_is_a_protocol_error() -> None:
    """It names the field."""
    async with Peer() as peer:
        endpoint = Endpoint(peer.address, Security())
        with pytest.raises(ProtocolError, match="offset"):
            await max_offset(endpoint, "t", 0)
        await endpoint.close()


async def test_a_beginning_that_a_broker_does_not_know_is_asked_of_a_pull() -> None:
    """As one with tiered storage may not."""

    def answer(session: Any, request: Frame) -> None:
        if request.code == Request.GET_MIN_OFFSET:
            session.answer(request, fields={"offset": "-1"})
        else:
            assert request.fields["queueOffset"] == "0"
            ends = {"nextBeginOffset": "40", "minOffset": "40", "maxOffset": "90"}
            session.answer(request, code=Response.PULL_OFFSET_MOVED, fields=ends)

    async with Peer(answer) as peer:
        endpoint = Endpoint(peer.address, Security())
        assert await min_offset(endpoint, "t", 0) == 40
        await endpoint.close()


class Vague:
    """A broker of a queue with these store times from offset `low` on, which answers `guess` to every time."""

    address = "broker:1"

    def __init__(self, times: list[int], low: int, guess: int) -> None:
        self._times = dict(enumerate(times, low))
        self._ends = {"minOffset": str(low), "maxOffset": str(low + len(times))}
        self._guess = guess
        self.asked = 0

    async def ask(self, code: int, fields: Mapping[str, str]) -> Frame:
        assert code == Request.SEARCH_OFFSET_BY_TIMESTAMP
        self.asked += 1
        return Frame(0, 1, 1, "", {"offset": str(self._guess)}, b"")

    async def invoke(self, code: int, fields: Mapping[str, str], **_more: Any) -> Frame:
        assert code == Request.PULL_MESSAGE
        self.asked += 1
        start = int(fields["queueOffset"])
        found = [(i, self._times[i]) for i in range(start, start + int(fields["maxMsgNums"])) if i in self._times]
        body = b"".join(stored(i, time=at) for i, at in found) if start in self._times else b""
        next_offset = {"nextBeginOffset": str(start + len(found))}
        return Frame(0 if body else Response.PULL_OFFSET_MOVED, 1, 1, "", self._ends | next_offset, body)


@given(
    st.lists(st.integers(0, 30), max_size=60).map(sorted),
    st.integers(0, 5),
    st.integers(-1, 70),
    st.integers(0, 31),
)
async def test_a_time_is_found_exactly_whatever_the_broker_says(
    times: list[int], low: int, guess: int, at: int
) -> None:
    """The first of many messages of one millisecond, the next one where there is none, the end behind all."""
    broker = Vague(times, low, guess)
    exact = low + bisect_left(times, at)
    assert await offset_at(cast("Endpoint", broker), "t", 0, at) == exact
    broker = Vague(times, low, exact)
    assert await offset_at(cast("Endpoint", broker), "t", 0, at) == exact
    assert broker.asked <= 3


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "5.5.0"])
async def test_real_brokers(clusters: ClusterPool, topic_name: Callable[[str], str], version: str) -> None:
    """Their limits, and where queues begin, end, and were at a time."""
    cluster = await clusters.get(ClusterSpec(name="east", version=version))
    topic = topic_name("t")
    await create_topic(cluster, topic, queues=2)
    async with connected(cluster) as client:
        broker = client.master("east-a")
        assert await read_config(broker) == BrokerConfig(DEFAULT, "east-a", "east")
        await check_filter(broker, Subscription("SQL92", "n > 2 AND colour IN ('red', 'blue')"))
        with pytest.raises(BrokerRefused, match=r'SUBSCRIPTION_PARSE_FAILED \(23\).*Encountered "<EOF>"'):
            await check_filter(broker, Subscription("SQL92", "n > 2 AND"))
        before = int(time.time() * 1000)
        for _ in range(3):
            await send(client, "east-a", topic, 1, [(b"x", {})] * 2)

        async def ends() -> list[int]:
            return [await max_offset(broker, topic, queue_id) for queue_id in (0, 1)]

        async def complete() -> bool:
            return await ends() == [0, 6]

        await until(complete)
        assert [await min_offset(broker, topic, queue_id) for queue_id in (0, 1)] == [0, 0]
        stored = [message.store_timestamp for message in (await pull(broker, topic, 1, 0)).messages]
        for at in (before - 60_000, *(time + beside for time in stored for beside in (-1, 0, 1)), before + 60_000):
            assert await offset_at(broker, topic, 1, at) == bisect_left(stored, at)
        assert await offset_at(broker, topic, 0, before) == 0
        with pytest.raises(BrokerRefused) as caught:
            await broker.ask(9999, {})
        assert caught.value.code == Response.REQUEST_CODE_NOT_SUPPORTED
