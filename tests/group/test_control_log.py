"""System topics as a log: what is there already is read in order, and only what is missing is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest
from structlog.testing import capture_logs

from replicator.client.cluster import Cluster as Client
from replicator.client.topics import READABLE, TopicConfig
from replicator.client.vip import vip_address
from replicator.errors import Unreachable
from replicator.group import control_log
from replicator.group.control_log import ControlLog, LogMessage
from replicator.protocol.codes import Response
from replicator.routing.message_queue import MessageQueue
from replicator.sandbox import Cluster, ClusterSpec
from tests.group.log_brokers import LogBroker, LogCluster, patch_client
from tests.support.clusters import ClusterPool
from tests.support.older_store import OlderStore
from tests.support.scene import SOURCE
from tests.support.traffic import connected, create_topic, send, topics_of
from tests.support.worker import until

#: Seconds of the past that is wanted: all.
LONG: Final = 3600.0
#: What brokers that need no topic have.
SERVES: Final = {"log": TopicConfig(name="log", read_queues=1, write_queues=1)}


class Reader:
    """A log of one topic, and what it has said; `caught_up` is set once it has read all that there was."""

    def __init__(self, client: Client, topic: str, past: float = LONG) -> None:
        self.said: list[LogMessage] = []
        self.caught_up = asyncio.Event()
        self.resets = 0
        self.log = ControlLog(
            client,
            {topic: past},
            on_said=self.said.append,
            on_reset=self._count_reset,
            on_caught_up=self.caught_up.set,
        )

    def _count_reset(self, _queue: MessageQueue) -> None:
        self.resets += 1

    @property
    def numbers(self) -> list[int]:
        return [int.from_bytes(said.body[:4]) for said in self.said]

    async def read(self, there: Mapping[str, Mapping[str, TopicConfig]]) -> list[int]:
        """The numbers that are in the log when it has been read to its end."""
        await self.log.open(there)
        try:
            async with asyncio.timeout(30):
                await self.caught_up.wait()
        finally:
            await self.log.close()
        return self.numbers


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
async def test_what_is_there_is_read_once_and_in_order(
    clusters: ClusterPool, topic_name: Callable[[str], str], version: str
) -> None:
    """Several pulls at a time, of which some give less than they were requested: 256 KiB are the most."""
    cluster = await clusters.get(ClusterSpec(name="east", version=version))
    topic = topic_name("log")
    await create_topic(cluster, topic, queues=1)
    sizes = [60_000 if 300 <= number < 340 else 10 for number in range(1000)]
    async with connected(cluster) as client:
        (broker,) = client.brokers()
        for first in range(0, 1000, 50):
            numbers = range(first, first + 50)
            bodies: list[tuple[bytes, dict[str, str]]] = [
                (number.to_bytes(4) + bytes(sizes[number]), {}) for number in numbers
            ]
            await send(client, broker, topic, 0, bodies)
        there = await topics_of(cluster)
        assert await Reader(client, topic).read(there) == list(range(1000))
        # Of no past at all, the newest message at least.
        newest = await Reader(client, topic, past=0.0).read(there)
        assert newest == list(range(1000))[-len(newest) :]
        assert 1 <= len(newest) < 1000


async def test_what_a_broker_has_lost_is_noticed(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """It comes back with an older store, and has more new messages than it has lost when it is read again."""
    async with clusters.fresh(ClusterSpec(name="east", version="5.3.3")) as cluster:
        topic, store = topic_name("log"), OlderStore(cluster, tmp_path / "store")
        await create_topic(cluster, topic, queues=1)
        await _write(cluster, topic, range(10))
        await store.save()
        await _write(cluster, topic, range(10, 20))
        async with connected(cluster) as client:
            reader = Reader(client, topic)
            await reader.log.open(await topics_of(cluster))
            try:
                await until(lambda: reader.numbers == [*range(20)])
                await store.restore()
                await _write(cluster, topic, range(100, 110))
                await until(lambda: reader.numbers[-10:] == [*range(100, 110)], what="what came afterwards is read")
                assert reader.resets == 1
            finally:
                await reader.log.close()


async def _write(cluster: Cluster, topic: str, numbers: Iterable[int]) -> None:
    async with connected(cluster) as client:
        (broker,) = client.brokers()
        for number in numbers:
            await send(client, broker, topic, 0, [(number.to_bytes(4), {})])


async def test_a_topic_is_made_where_it_is_missing_or_of_no_use(
    clusters: ClusterPool, topic_name: Callable[[str], str]
) -> None:
    cluster = await clusters.get(SOURCE)
    missing, closed, there = topic_name("missing"), topic_name("closed"), topic_name("there")
    await create_topic(cluster, closed, queues=1, perm=READABLE)
    await create_topic(cluster, there, queues=3)
    async with connected(cluster) as client:
        for topic in (missing, closed, there):
            assert await Reader(client, topic).read(await topics_of(cluster)) == []
    (topics,) = (await topics_of(cluster)).values()
    made = {name: (topics[name].queues, topics[name].perm) for name in (missing, closed, there)}
    assert made == {missing: (1, 6), closed: (1, 6), there: (3, 6)}


class Rounds:
    """A log over brokers without a network; `told` are the messages, and whether all was read, at each news."""

    def __init__(self, **brokers: LogBroker) -> None:
        self.said: list[bytes] = []
        self.told: list[tuple[int, bool]] = []
        self.brokers = brokers
        self.log = ControlLog(
            cast("Any", LogCluster(**brokers)),
            {"log": LONG},
            on_said=lambda said: self.said.append(said.body),
            on_reset=lambda _: None,
            on_caught_up=lambda: self.told.append((len(self.said), self.log.was_read)),
        )

    async def __aenter__(self) -> Rounds:
        await self.log.open(dict.fromkeys(self.brokers, SERVES))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.log.close()


@pytest.mark.parametrize("code", [Response.PULL_NOT_FOUND, Response.PULL_RETRY_IMMEDIATELY])
async def test_a_broker_that_gives_nothing_of_a_queue_that_goes_on(
    monkeypatch: pytest.MonkeyPatch, code: Response
) -> None:
    """It is asked again with pauses, and after a while nobody waits for it."""
    patch_client(monkeypatch)
    monkeypatch.setattr(control_log, "_NOTHING_SHOWN", 0.3, raising=False)
    stuck = LogBroker(*[b"x"] * 100, trouble=lambda offset: code if offset >= 64 else None)
    async with Rounds(a=stuck, b=LogBroker(b"y")) as here:
        await until(lambda: here.said.count(b"x") == 64, what="it is read as far as it gives something")
        await until(lambda: here.log.caught_up)
        assert here.told == [(65, True)]
        assert stuck.pulls < 50


async def test_a_busy_broker_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody joins the group without what its log has because it gave nothing once or twice."""
    patch_client(monkeypatch)
    busy = iter([Response.PULL_RETRY_IMMEDIATELY] * 3)
    broker = LogBroker(*[b"x"] * 40, trouble=lambda offset: next(busy, None) if offset == 32 else None)
    async with Rounds(a=broker) as here:
        await until(lambda: here.told)
        assert here.told == [(40, True)]


async def test_what_could_not_be_read_is_news_once_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only broker that has it drops the connection for a while: nobody waits, and all hear when it was read."""
    patch_client(monkeypatch)
    lost = iter([Unreachable("a", "reset")] * 3)
    broker = LogBroker(*[b"x"] * 40, trouble=lambda offset: next(lost, None) if offset == 32 else None)
    async with Rounds(a=broker) as here:
        await until(lambda: len(here.told) > 1)
        assert here.told == [(0, False), (40, True)]


async def test_what_nobody_waits_for_is_not_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two brokers comes back after the other was read."""
    patch_client(monkeypatch)
    lost = iter([Unreachable("a", "reset")] * 3)
    broker = LogBroker(b"x", trouble=lambda _: next(lost, None))
    async with Rounds(a=broker, b=LogBroker(b"y")) as here:
        await until(lambda: len(here.said) == 2)
        assert here.told == [(1, True)]


async def test_a_broker_whose_address_is_none_keeps_nothing_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name server says that it listens nowhere, as with an empty `brokerIP1`."""
    sent: list[tuple[str, bytes]] = []

    class Named(LogCluster):
        """A client that finds out where the brokers' VIP ports are."""

        def writer(self, broker: str) -> LogBroker:
            vip_address(self.brokers()[broker].address)
            return super().reader(broker)

    async def send_single(broker: LogBroker, _fields: object, body: bytes) -> None:
        sent.append((broker.address, body))

    monkeypatch.setattr(control_log, "send_single", send_single)
    here = Rounds(a=LogBroker(), b=LogBroker())
    here.brokers["a"].address = ":10911"
    monkeypatch.setattr(here.log, "_cluster", Named(**here.brokers))
    await here.log.write("log", b"beat", copies=2)
    assert sent == [("127.0.0.1:10911", b"beat")]


async def test_who_hears_that_all_was_read_ends_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug there is logged, and what comes later is read."""
    patch_client(monkeypatch)
    broker = LogBroker(b"x")
    here = Rounds(a=broker)

    def fail() -> None:
        broker.bodies = (b"x", b"y")
        raise ZeroDivisionError

    monkeypatch.setattr(here.log, "_on_caught_up", fail)
    with capture_logs() as logs:
        async with here:
            await until(lambda: here.said == [b"x", b"y"])
    assert [each["reason"] for each in logs if each["log_level"] == "error"] == ["ZeroDivisionError()"]
