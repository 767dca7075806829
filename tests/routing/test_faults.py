"""What goes wrong is detected, counted exactly, shown, and handled by the stated policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.client.brokers import min_offset
from replicator.protocol import properties
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.traffic import (
    configure,
    connected,
    create_topic,
    judge,
    produce,
    raw_topic,
    remove_topic,
    send,
)
from tests.support.worker import Worker, until

pytestmark = pytest.mark.brokers

SOURCE = ClusterSpec(name="east", version="5.3.3")
TARGET = ClusterSpec(name="west", version="5.3.3")
NARROW = ClusterSpec(name="narrow", version="5.5.0", properties={"maxMessageSize": "65536"})
NARROW_49 = ClusterSpec(name="narrow", version="4.9.7", properties={"maxMessageSize": "65536"})
TINY_FILES = {
    "mappedFileSizeCommitLog": "1048576",
    "cleanResourceInterval": "1000",
    "deleteConsumeQueueFilesInterval": "10",
    "deleteCommitLogFilesInterval": "10",
    "maxMessageSize": "262144",
}


async def _expire(source: Cluster, topic: str, *, before: int) -> int:
    """Has the source delete what it can, as retention would; gives the queue's new oldest offset."""
    await configure(source, fileReservedTime=0)
    async with connected(source) as client:
        broker = client.master(source.brokers[0].name)

        async def moved() -> int:
            await broker.ask(329, {})  # delete expired commit logs
            oldest = await min_offset(broker, topic, 0)
            return oldest if oldest > before else 0

        return int(await until(moved, seconds=60, what="retention"))


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
async def test_retention_overtook_the_position(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], version: str
) -> None:
    """The gap is counted to the message; `fail` stands still there, `skip` goes on behind it."""
    target = await clusters.get(TARGET)
    topic = topic_name("t")
    spec = ClusterSpec(name="forgetful", version=version, properties=TINY_FILES)
    async with clusters.fresh(spec) as source:
        await create_topic(source, topic, queues=1)
        await produce(source, topic, 500, size=1000)
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 500)
            await worker.drain()
        await produce(source, topic, 8000, size=1000, start=500)
        oldest = await _expire(source, topic, before=500)
        async with Worker(source, target, tmp_path, "--topics", topic, "--on-gap", "fail") as worker:
            await until(lambda: worker.topic(topic).get("state") == "failed")
            assert f"{oldest - 500} messages at offsets 500 to {oldest - 1}" in worker.topic(topic)["reason"]
            assert worker.topic(topic)["copied"] == 0
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 8500 - oldest)
            assert worker.topic(topic)["gap_messages"] == oldest - 500
            assert f'gap_messages_total{{source="forgetful",target="west",topic="{topic}"}} {oldest - 500}.0' in (
                worker.get("/metrics")
            )
        copies = (await raw_topic(target, topic))["west-a", 0]
        assert len(copies) == 500 + 8500 - oldest


async def test_topic_deleted_and_made_anew_while_it_runs(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The new topic is copied from its first message, behind what was copied of the old one."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    await produce(source, topic, 300)
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 300)
        await remove_topic(source, topic)
        await asyncio.sleep(0.3)
        await create_topic(source, topic, queues=1)
        await produce(source, topic, 100, start=1000)

        async def arrived() -> bool:
            return len((await raw_topic(target, topic))["west-a", 0]) >= 400

        await until(arrived)
        await produce(source, topic, 50, start=1100)
        await worker.caught_up(topic, 450)
        assert await worker.drain() == 0
    copies = (await raw_topic(target, topic))["west-a", 0]
    assert [int(properties.decode(m.properties)["n"]) for m in copies] == [*range(300), *range(1000, 1150)]


@pytest.mark.parametrize("later", [100, 400], ids=["shorter", "longer"])
async def test_topic_deleted_and_made_anew_while_it_is_away(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], later: int
) -> None:
    """Also when the new topic has grown beyond the position, so that offsets alone tell nothing."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    await produce(source, topic, 300)
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 300)
        await worker.drain()
    await remove_topic(source, topic)
    await asyncio.sleep(0.3)
    await create_topic(source, topic, queues=1)
    await produce(source, topic, later, start=1000)
    for _ in range(2):
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 0)
            await worker.kill()
    copies = (await raw_topic(target, topic))["west-a", 0]
    assert [int(properties.decode(m.properties)["n"]) for m in copies] == [*range(300), *range(1000, 1000 + later)]


async def _too_large(source: Cluster, topic: str) -> None:
    """Ten small messages, a large one, ten small ones, in queue 0; others in queue 1."""
    async with connected(source) as client:
        small = [(b"small", {"KEYS": str(i)}) for i in range(10)]
        await send(client, "east-a", topic, 0, small)
        await send(client, "east-a", topic, 0, [(b"L" * 100_000, {"KEYS": "large", "TAGS": "big"})])
        await send(client, "east-a", topic, 0, small)
        await send(client, "east-a", topic, 1, small)


@pytest.mark.parametrize("spec", [NARROW, NARROW_49], ids=["5.5.0", "4.9.7"])
@pytest.mark.parametrize("policy", ["fail", "skip", "wait", "dead-letter"])
async def test_a_message_larger_than_the_target_takes(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], policy: str, spec: ClusterSpec
) -> None:
    """Each policy does what it says, and the other queue goes on."""
    source, target = await clusters.pair(SOURCE, spec)
    topic = topic_name("t").replace("--", "-")
    await create_topic(source, topic, queues=2)
    await _too_large(source, topic)
    letters = topic_name("letters").replace("--", "-")
    flags = ("--topics", topic, "--on-error", policy, "--dead-letter-topic", letters)
    async with Worker(source, target, tmp_path, *flags) as worker:
        state = {"fail": "failed", "wait": "waiting"}.get(policy)
        if state is not None:
            await until(lambda: worker.topic(topic).get("state") == state)
            queue = next(q for q in worker.queues(topic) if q["source"]["queue"] == 0)
            assert queue["position"] == 10
            assert f"message east-a/0/10 of {topic}" in queue["reason"]
            assert next(q for q in worker.queues(topic) if q["source"]["queue"] == 1)["copied"] == 10
            if policy == "wait":  # the operator raises the limit, and it goes on by itself
                await configure(target, maxMessageSize=4194304)
                await worker.caught_up(topic, 31, seconds=60)
                await configure(target, maxMessageSize=65536)
            return
        await worker.caught_up(topic, 30)
        reason = {"skip": "error"}.get(policy, policy)
        assert {r: n for q in worker.queues(topic) for r, n in q["skipped"].items()} == {reason: 1}
    copies = (await raw_topic(target, topic))["narrow-a", 0]
    assert len(copies) == 20
    if policy == "dead-letter":
        ((letter,),) = (await raw_topic(target, letters)).values()
        told = properties.decode(letter.properties)
        assert told["__RPL_SOURCE"].startswith("east/east-a/0/10/")
        assert (told["__RPL_TOPIC"], told["__RPL_SIZE"], told["__RPL_OMITTED"]) == (topic, "100000", "body")
        assert (told["KEYS"], told["TAGS"]) == ("large", "big")
        assert "size" in told["__RPL_REASON"] or "13" in told["__RPL_REASON"]


async def test_properties_that_are_too_long_with_our_own(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """32,767 bytes are possible; the message before and the one behind it arrive."""
    source, target = await clusters.pair(ClusterSpec(name="east", version="5.5.0"), TARGET)
    topic, letters = topic_name("t"), topic_name("letters")
    await create_topic(source, topic, queues=1)
    async with connected(source) as client:
        for told in ({"KEYS": "a"}, {"KEYS": "b", "p": "x" * 32_740}, {"KEYS": "c"}):
            await send(client, "east-a", topic, 0, [(b"body", told)])
    flags = ("--topics", topic, "--on-error", "dead-letter", "--dead-letter-topic", letters)
    async with Worker(source, target, tmp_path, *flags) as worker:
        await worker.caught_up(topic, 2)
    copies = (await raw_topic(target, topic))["west-a", 0]
    assert [properties.decode(m.properties)["KEYS"] for m in copies] == ["a", "c"]
    ((letter,),) = (await raw_topic(target, letters)).values()
    told = properties.decode(letter.properties)
    assert told["__RPL_OMITTED"] == "properties"
    assert letter.body[4:] == b"body"


async def test_a_foreign_producer_in_a_mapped_queue(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Its messages are counted and left alone; the offset map stays exact; a restart repeats nothing."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    await produce(source, topic, 100)
    async with Worker(source, target, tmp_path / "one", "--topics", topic) as worker:
        await worker.caught_up(topic, 100)
        async with connected(target) as client:
            await send(client, "west-a", topic, 0, [(b"foreign", {"KEYS": str(i)}) for i in range(7)])
        await produce(source, topic, 100, start=100)
        await worker.caught_up(topic, 200)
        await until(lambda: worker.topic(topic)["foreign"] == 7)
    async with connected(target) as client:
        await send(client, "west-a", topic, 0, [(b"foreign", {"KEYS": str(i)}) for i in range(50)])
    async with Worker(source, target, tmp_path / "two", "--topics", topic) as worker:
        await produce(source, topic, 100, start=200)
        await worker.caught_up(topic, 100)
        assert worker.topic(topic)["repeated"] == 0
    verdict = await judge(source, target, topic)
    assert not verdict.lost
    assert not verdict.duplicated
    assert not verdict.out_of_order
    assert len(verdict.extra) == 57


async def test_no_permission_at_the_target_for_a_while(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Shown while it lasts, and over by itself when it is. Brokers look at it for ordered topics only."""
    source = await clusters.get(SOURCE)
    topic = topic_name("t")
    async with clusters.fresh(ClusterSpec(name="locked")) as target:
        await create_topic(source, topic, queues=2, order=True)
        await produce(source, topic, 100)
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 100)
            await configure(target, brokerPermission=4)
            await produce(source, topic, 100, start=100)
            await until(lambda: worker.topic(topic)["state"] == "waiting")
            assert "code 16" in worker.topic(topic)["reason"]
            with pytest.raises(OSError, match="503"):
                worker.get("/health/ready")
            await configure(target, brokerPermission=6)
            await worker.caught_up(topic, 200)
            assert worker.get("/health/ready")["ready"]
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


async def test_a_busy_target(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """Answers of 'busy' are waited out in order."""
    source = await clusters.get(SOURCE)
    topic = topic_name("t")
    async with clusters.fresh(ClusterSpec(name="busy")) as target:
        await create_topic(source, topic, queues=8)
        await produce(source, topic, 4000)
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await until(lambda: worker.topic(topic).get("copied"))
            await configure(target, waitTimeMillsInSendQueue=0, sendMessageThreadPoolNums=1)
            await produce(source, topic, 20_000, start=4000)
            await asyncio.sleep(2)
            await configure(target, waitTimeMillsInSendQueue=200)
            await worker.caught_up(topic, 24_000)
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


async def test_the_target_topic_is_deleted_while_it_runs(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """It is made again and filled with all that the source still has."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 200)
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 200)
        await remove_topic(target, topic)
        await produce(source, topic, 100, start=200)
        await worker.caught_up(topic, 500, seconds=60)
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
