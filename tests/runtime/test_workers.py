"""Groups of real workers on real brokers: they share the work, and survive the loss of any."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from math import ceil
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.proxy import BrokerProxies
from tests.support.sockets import unsent as _unsent
from tests.support.traffic import Producer, connected, create_topic, judge, produce, remove_topic, send, topics_of
from tests.support.worker import Worker, until

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(400)]

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")


@asynccontextmanager
async def _workers(
    source: Cluster, target: Cluster, directory: Path, count: int, *flags: str
) -> AsyncIterator[list[Worker]]:
    workers = [Worker(source, target, directory / f"w{i}", "--worker-id", f"w{i}", *flags) for i in range(count)]
    try:
        await asyncio.gather(*(worker.start() for worker in workers))
        yield workers
    finally:
        for worker in workers:
            await worker.kill()


@asynccontextmanager
async def _producing(producers: Sequence[Producer]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for producer in producers:
            await stack.enter_async_context(producer)
        yield


def _share(workers: Sequence[Worker], topics: int) -> list[set[str]] | None:
    """Which topics run where, once all run, each once."""
    shares = [set(worker.running) for worker in workers]
    return shares if sum(map(len, shares)) == topics == len(set().union(*shares)) else None


async def _topics(source: Cluster, name: Callable[[str], str], count: int) -> list[str]:
    topics = [name(f"{i:03}") for i in range(count)]
    for topic in topics:
        await create_topic(source, topic, queues=1)
    return topics


async def test_each_of_three_is_killed_in_turn_under_load(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """200 topics: what a dead worker had goes on elsewhere within 10 s, it comes back by itself."""
    source, target = await clusters.pair(EAST, WEST)
    idle = await _topics(source, topic_name, 196)
    busy = [topic_name(f"busy-{i}") for i in range(4)]
    for topic in busy:
        await create_topic(source, topic, queues=2)
    producers = [Producer(source, topic, per_second=400) for topic in busy]
    async with (
        _producing(producers),
        _workers(source, target, tmp_path, 3, "--topics", topic_name(".*")) as workers,
    ):
        shares = await until(lambda: _share(workers, 200), what="all share")
        assert all(66 <= len(share) <= 67 for share in shares)
        for victim in workers:
            others = [worker for worker in workers if worker is not victim]
            await victim.kill()
            begin = time.monotonic()
            await until(partial(_share, others, 200), seconds=30, what="the others have it all")
            assert time.monotonic() - begin < 10 + 2  # and the time that this test takes to see it
            await victim.start()
            await until(lambda: _share(workers, 200), seconds=30, what="it has a share again")
        await asyncio.gather(*(producer.finish() for producer in producers))
        for topic in busy:
            await until(partial(_caught_up, workers, topic), what=f"{topic} caught up")
    assert len(idle) + len(busy) == 200
    for topic, producer in zip(busy, producers, strict=True):
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged


def _caught_up(workers: Sequence[Worker], topic: str) -> bool:
    queues = [queue for worker in workers for queue in worker.queues(topic)]
    return bool(queues) and all(q["state"] == "running" and q["position"] == q["max_offset"] for q in queues)


@pytest.mark.parametrize("paused", [15.0])
async def test_a_worker_that_was_paused_does_no_harm(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], paused: float
) -> None:
    """Longer than others wait for it, under load: its queues go on elsewhere, and nothing is sent twice."""
    source, target = await clusters.pair(EAST, WEST)
    topics = [topic_name(f"{i}") for i in range(4)]
    for topic in topics:
        await create_topic(source, topic, queues=2)
    producers = [Producer(source, topic, per_second=2000, size=4000) for topic in topics]
    async with (
        _producing(producers),
        _workers(source, target, tmp_path, 2, "--topics", topic_name(".*")) as workers,
    ):
        await until(lambda: _share(workers, 4), what="both share")
        for zombie, other in (workers, workers[::-1]):
            zombie.signal(signal.SIGSTOP)
            try:
                await until(partial(_share, [other], 4), seconds=30, what="the other has it all")
                await asyncio.sleep(max(0.0, paused - 10))
            finally:
                zombie.signal(signal.SIGCONT)
            await until(lambda: _share(workers, 4), seconds=30, what="both share again")
            assert "lease lost" in zombie.log
        await asyncio.gather(*(producer.finish() for producer in producers))
        for topic in topics:
            await until(partial(_caught_up, workers, topic), what=f"{topic} caught up")
            assert sum(worker.topic(topic).get("repeated", 0) for worker in workers) == 0
    for topic, producer in zip(topics, producers, strict=True):
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_worker_that_is_cut_off_from_one_cluster(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], side: str
) -> None:
    """The other takes over; when the network is whole again both share, and nothing was sent twice."""
    proxied = ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2")
    specs = (proxied, WEST) if side == "source" else (EAST, proxied)
    source, target = await clusters.pair(*specs)
    behind = source if side == "source" else target
    topics = [topic_name(f"{i}") for i in range(4)]
    async with BrokerProxies(("127.0.0.2", behind.brokers[0].port)) as network:
        for topic in topics:
            await create_topic(source, topic, queues=2)
        producers = [Producer(source, topic, per_second=500) for topic in topics]
        async with (
            _producing(producers),
            _workers(source, target, tmp_path, 2, "--topics", topic_name(".*")) as workers,
        ):
            await until(lambda: _share(workers, 4), what="both share")
            for lonely, other in (workers, workers[::-1]):
                network.cut(lonely.pid)
                await until(partial(_share, [other], 4), seconds=30, what="the other has it all")
                network.mend()
                await until(partial(_share, workers, 4), seconds=40, what="both share again")
            await asyncio.gather(*(producer.finish() for producer in producers))
            for topic in topics:
                await until(partial(_caught_up, workers, topic), what=f"{topic} caught up")
        for topic, producer in zip(topics, producers, strict=True):
            verdict = await judge(source, target, topic)
            assert verdict.clean, verdict.report()
            assert verdict.copies == producer.acknowledged


async def test_what_was_half_sent_before_a_pause_is_not_finished_after_it(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """A request that fills the network stands half written when the process is stopped; another takes over."""
    source, target = await clusters.pair(EAST, ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2"))
    topic = topic_name("t")
    await create_topic(source, topic, queues=4)
    async with (
        BrokerProxies(("127.0.0.2", target.brokers[0].port)) as network,
        _workers(source, target, tmp_path, 2, "--topics", topic, "--batch-bytes", "3MiB") as workers,
    ):
        vip = target.brokers[0].port - 2
        owner = (await until(lambda: [worker for worker in workers if worker.running]))[0]
        (other,) = (worker for worker in workers if worker is not owner)
        network.vip.stall()
        await produce(source, topic, 1000, size=30_000)
        await until(lambda: owner.topic(topic)["lag_messages"] == 1000)
        await until(lambda: _unsent(owner.pid, vip) > 1024**2, what="a request stands half written")
        owner.signal(signal.SIGSTOP)
        network.vip.resume()
        await until(partial(_share, [other], 1), seconds=30)
        await until(partial(_caught_up, [other], topic))
        owner.signal(signal.SIGCONT)
        await until(lambda: "lease lost" in owner.log)
        await produce(source, topic, 100, start=1000)
        await until(lambda: any(_caught_up([worker], topic) for worker in workers))
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 1100


async def test_a_rolling_restart_repeats_nothing(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Each worker in turn drains; its queues go on within two seconds, while messages flow."""
    source, target = await clusters.pair(EAST, WEST)
    topics = [topic_name(f"{i}") for i in range(3)]
    for topic in topics:
        await create_topic(source, topic, queues=2)
    producers = [Producer(source, topic, per_second=500) for topic in topics]
    async with (
        _producing(producers),
        _workers(source, target, tmp_path, 3, "--topics", topic_name(".*")) as workers,
    ):
        await until(lambda: _share(workers, 3), what="all share")
        for worker in workers:
            others = [other for other in workers if other is not worker]
            worker.signal(signal.SIGTERM)
            begin = time.monotonic()
            await until(partial(_share, others, 3), seconds=20)
            assert time.monotonic() - begin < 2 + 1  # and the time that this test takes to see it
            assert await worker.wait() == 0
            await worker.start()
            await until(lambda: _share(workers, 3), seconds=20)
        await asyncio.gather(*(producer.finish() for producer in producers))
        for topic in topics:
            await until(partial(_caught_up, workers, topic))
    for topic, producer in zip(topics, producers, strict=True):
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged


async def test_a_fourth_worker_takes_a_quarter_and_stops_no_other(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Queues as tasks, two brokers; the granularity is changed while they run."""
    source, target = await clusters.pair(ClusterSpec(name="east", version="5.3.3", brokers=2), WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=10)
    flags = ("--topics", topic, "--task-granularity", "queue")
    async with _workers(source, target, tmp_path, 3, *flags) as workers:
        await until(lambda: sorted(len(w.queues(topic)) for w in workers) == [6, 7, 7])
        await until(lambda: all(q["state"] == "running" for w in workers for q in w.queues(topic)))
        before = _owners(workers, topic)
        stopped = [worker.log.count('"event": "task stopped"') for worker in workers]
        fourth = Worker(source, target, tmp_path / "w3", "--worker-id", "w3", *flags)
        async with fourth:
            await until(lambda: sorted(len(w.queues(topic)) for w in [*workers, fourth]) == [5, 5, 5, 5])
            after = _owners([*workers, fourth], topic)
            moved = {queue for queue in after if before[queue] != after[queue]}
            assert {after[queue] for queue in moved} == {3}
            assert len(moved) <= ceil(20 / 4)
            for number, worker in enumerate(workers):
                given = [queue for queue in moved if before[queue] == number]
                assert worker.log.count('"event": "task stopped"') - stopped[number] == len(given)
            status, _ = workers[1].ask("PUT", "/connectors/route", {"topics": topic, "task_granularity": "topic"})
            assert status == 200
            await until(lambda: [len(w.queues(topic)) for w in [*workers, fourth]].count(20) == 1)
            await produce(source, topic, 400)
            await until(lambda: sum(w.topic(topic).get("copied", 0) for w in [*workers, fourth]) == 400)


async def test_system_topics_may_be_filled_with_garbage_or_deleted(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """What no worker wrote is ignored and counted; a deleted topic is made again and filled again."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    async with _workers(source, target, tmp_path, 2, "--topics", topic, "--session-timeout", "8") as workers:
        await until(lambda: _share(workers, 1))
        later = json.dumps({"version": 99, "group": "g", "worker": "w", "records": "?"}).encode()
        nested = b"[" * 100_000
        async with connected(source) as client:
            for system in ("replicator_sys_control", "replicator_sys_source_online", "replicator_sys_sink_online"):
                await send(
                    client, "east-a", system, 0, [(body, {}) for body in (b"\xff\x00", b"{}", nested, later)]
                )
        await until(lambda: _ignored(workers[0]) == {"unreadable": 9, "newer": 3})
        assert workers[0].log.count("a later program wrote it: upgrade this worker") == 1
        for system in ("replicator_sys_control", "replicator_sys_source_online", "replicator_sys_sink_online"):
            await remove_topic(source, system)
        await until(lambda: all("has been made again" in worker.log for worker in workers), seconds=30)
        await until(lambda: _share(workers, 1), seconds=30)
        async with Worker(source, target, tmp_path / "new", "--topics", topic) as new:
            await until(partial(_same, workers[0], new, "taskConfig.json"), seconds=20)
            await produce(source, topic, 100)
            await until(lambda: sum(w.topic(topic).get("copied", 0) for w in [*workers, new]) == 100)


def _ignored(worker: Worker) -> dict[str, int]:
    found = re.findall(r'control_messages_ignored_total\{.*kind="(\w+)".*\} (\d+)', worker.get("/metrics"))
    return {kind: int(float(count)) for kind, count in found}


async def test_two_workers_of_one_name_are_refused(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The one that came later ends, and says where the other is; that one goes on."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    async with _workers(source, target, tmp_path, 1, "--topics", topic) as (first,):
        await until(lambda: _share([first], 1))
        second = Worker(source, target, tmp_path / "other", "--worker-id", "w0", "--topics", topic)
        await second.start(ready=False)
        assert await second.wait() == 3
        assert "is used by another worker of group" in second.log
        assert f"127.0.0.1:{first.port}" in second.log
        assert first.running == [topic]


async def test_a_worker_alone_needs_no_system_topics(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The same code, nothing written to the source, the same files; what it knows survives a restart."""
    source = await clusters.get(WEST)
    async with clusters.fresh(ClusterSpec(name="alone", version="4.9.7")) as target:
        topic = topic_name("t")
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 100)
        before = set((await topics_of(source))["west-a"])
        worker = Worker(source, target, tmp_path, "--topics", topic, "--standalone")
        async with worker:
            await worker.caught_up(topic, 100)
            assert await worker.drain() == 0
            await produce(source, topic, 100, start=100)
            await worker.start()
            await worker.caught_up(topic, 100)
            status, _ = worker.ask("PUT", "/connectors/route/pause")
            assert status == 200
            await until(lambda: not worker.running)
            assert await worker.drain() == 0
        assert set((await topics_of(source))["west-a"]) == before
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 200


def _owners(workers: Sequence[Worker], topic: str) -> dict[tuple[str, int], int]:
    return {
        (queue["source"]["broker"], queue["source"]["queue"]): number
        for number, worker in enumerate(workers)
        for queue in worker.queues(topic)
    }


async def test_a_worker_with_an_empty_disk_has_all_within_seconds(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The four files of all workers say the same."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 100)
    async with _workers(source, target, tmp_path, 1, "--topics", topic) as (first,):
        await first.caught_up(topic, 100)
        new = Worker(source, target, tmp_path / "new", "--topics", topic)
        async with new:
            for name in ("connectorConfig.json", "taskConfig.json", "position.json", "offset.json"):
                await until(partial(_same, first, new, name), seconds=10, what=name)


def _same(one: Worker, other: Worker, name: str) -> bool:
    found = [json.loads((worker.store / name).read_text())["content"] for worker in (one, other)]
    return bool(found[0]) and found[0] == found[1]
