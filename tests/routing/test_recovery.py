"""Whatever dies on the way: nothing lost, nothing twice, order kept."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.proxy import BrokerProxies
from tests.support.traffic import Producer, create_topic, judge, produce
from tests.support.worker import Worker, until

pytestmark = pytest.mark.brokers

SOURCE = ClusterSpec(name="east", version="5.3.3")
TARGET = ClusterSpec(name="west", version="5.3.3")
PROXIED = ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("keep_store", [True, False], ids=["with its store", "with an empty disk"])
async def test_kill_9_at_random_moments_under_load(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], keep_store: bool
) -> None:
    """Ten times each: started again at once, with the state files and without them."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=4)
    producer = Producer(source, topic, per_second=3000)
    running = asyncio.create_task(producer.run())
    dice = random.Random(7)
    killed_in_mid_flow = 0
    for turn in range(10):
        directory = tmp_path / ("same" if keep_store else str(turn))
        worker = Worker(source, target, directory, "--topics", topic, "--settle-seconds", "0.5")
        await worker.start()
        await until(partial(worker.has_copied, topic, 1), what="the first copies")
        await asyncio.sleep(dice.uniform(0.0, 0.7))
        killed_in_mid_flow += worker.topic(topic)["copied"] > 0
        await worker.kill()
    assert killed_in_mid_flow == 10
    producer.stop()
    await running
    async with Worker(source, target, tmp_path / "same", "--topics", topic) as worker:
        await until(lambda: worker.topic(topic).get("state") == "running")
        await worker.caught_up(topic, 0)
        assert worker.topic(topic)["repeated"] == 0
        assert await worker.drain() == 0
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == producer.acknowledged


async def test_answers_lost_on_the_way(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The broker stored the batch, its answer never came: the target's tail tells, nothing is sent twice."""
    source, target = await clusters.pair(SOURCE, PROXIED)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    async with BrokerProxies(("127.0.0.2", target.brokers[0].port), frames=True) as proxies:
        await produce(source, topic, 2000)
        swallow = proxies.vip.drop_answers(lambda frame: frame.code == 320, times=2)
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await until(lambda: len(swallow.swallowed) == 2)
            assert worker.topic(topic)["copied"] < 2000
            await until(lambda: worker.topic(topic)["state"] == "recovering")
            await worker.caught_up(topic, 0)
            await produce(source, topic, 1000, start=2000)
            await worker.caught_up(topic, 1000)
            assert worker.topic(topic)["repeated"] == 0
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == 3000


@pytest.mark.timeout(400)
async def test_target_broker_killed_and_started_again_under_load(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """No hand needed: it goes on by itself, and soon."""
    source = await clusters.get(SOURCE)
    topic = topic_name("t")
    async with clusters.fresh(ClusterSpec(name="victim")) as target:
        await create_topic(source, topic, queues=4)
        producer = Producer(source, topic, per_second=2000)
        running = asyncio.create_task(producer.run())
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            for _ in range(2):
                before = worker.topic(topic).get("copied", 0)
                await until(partial(worker.has_copied, topic, before + 1000))
                await target.brokers[0].kill()
                await until(lambda: worker.topic(topic)["state"] in ("waiting", "recovering"), seconds=30)
                await target.brokers[0].start()
                await until(lambda: worker.topic(topic)["state"] == "running", seconds=40)
            producer.stop()
            await running
            await worker.caught_up(topic, 0)
            assert await worker.drain() == 0
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == producer.acknowledged


@pytest.mark.timeout(400)
async def test_source_broker_killed_and_started_again_under_load(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Its queues wait for it; the other broker's go on at full speed."""
    target = await clusters.get(TARGET)
    topic = topic_name("t")
    async with clusters.fresh(ClusterSpec(name="shaky", brokers=2)) as source:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 4000)
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 4000)
            await source.brokers[0].kill()
            await until(lambda: "waiting" in {q["state"] for q in worker.queues(topic)}, seconds=40)
            states = {(q["source"]["broker"], q["state"]) for q in worker.queues(topic)}
            assert states == {("shaky-a", "waiting"), ("shaky-b", "running")}
            await source.brokers[0].start()
            await until(lambda: worker.topic(topic)["state"] == "running", seconds=40)
            await produce(source, topic, 1000, start=4000)
            await worker.caught_up(topic, 5000)
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


@pytest.mark.timeout(400)
async def test_target_broker_paused_longer_than_the_time_limit(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Requests that waited inside the paused broker are stored when it wakes up: they are found there."""
    source = await clusters.get(SOURCE)
    topic = topic_name("t")
    async with clusters.fresh(ClusterSpec(name="sleepy")) as target:
        await create_topic(source, topic, queues=4)
        producer = Producer(source, topic, per_second=2000)
        running = asyncio.create_task(producer.run())
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await until(lambda: worker.topic(topic).get("copied", 0) > 1000)
            target.brokers[0].pause()
            await asyncio.sleep(14)
            target.brokers[0].resume()
            producer.stop()
            await running
            await worker.caught_up(topic, 0, seconds=60)
            await until(lambda: worker.topic(topic)["state"] == "running", seconds=40)
            await worker.caught_up(topic, 0, seconds=60)
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


async def test_drained_by_sigterm_nothing_is_read_again(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Under load; exit code 0, and the next start goes on without a pause for settling."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=4)
    producer = Producer(source, topic, per_second=3000)
    running = asyncio.create_task(producer.run())
    for _ in range(3):
        async with Worker(source, target, tmp_path, "--topics", topic, "--settle-seconds", "0") as worker:
            await until(partial(worker.has_copied, topic, 500))
            assert await worker.drain() == 0
    producer.stop()
    await running
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await until(lambda: worker.topic(topic).get("state") == "running")
        await worker.caught_up(topic, 0)
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


async def test_a_second_signal_ends_it_at_once(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """While the target does not answer, the first SIGINT waits for it; the second does not."""
    source = await clusters.get(SOURCE)
    topic = topic_name("t")
    async with clusters.fresh(ClusterSpec(name="stuck")) as target:
        await create_topic(source, topic, queues=1)
        producer = Producer(source, topic, per_second=2000)
        running = asyncio.create_task(producer.run())
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await until(lambda: worker.topic(topic).get("copied", 0) > 500)
            target.brokers[0].pause()
            await until(lambda: worker.topic(topic)["lag_messages"] > 500)
            worker.signal(signal.SIGINT)
            await until(lambda: "draining" in worker.log)
            worker.signal(signal.SIGINT)
            assert await worker.wait() == 130
        target.brokers[0].resume()
        producer.stop()
        await running
