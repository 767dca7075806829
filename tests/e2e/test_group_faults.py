"""What happens to a group of real workers on real brokers, and what they make of it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, caught_up, producing, share, workers_of
from tests.support.proxy import BrokerProxies
from tests.support.sockets import unsent
from tests.support.traffic import (
    Producer,
    connected,
    create_topic,
    judge,
    produce,
    raw_topic,
    remove_topic,
    send,
    topics_of,
)
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(400)

#: The session timeout of workers in tests.
_SESSION = 5.0


async def _have_arrived(target: Cluster, topic: str, count: int) -> bool:
    """As its brokers say: a worker that was cut off knows no later end of a source queue for a while."""
    return sum(map(len, (await raw_topic(target, topic)).values())) >= count


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
    patient = ("--settle-timeout", "2")  # the proxy is as busy as the machine, and passes on what it has taken
    async with BrokerProxies(("127.0.0.2", behind.brokers[0].port)) as network:
        for topic in topics:
            await create_topic(source, topic, queues=2)
        producers = [Producer(source, topic, per_second=500) for topic in topics]
        async with (
            producing(producers),
            workers_of(source, target, tmp_path, 2, "--topics", topic_name(".*"), *patient) as workers,
        ):
            await until(lambda: share(workers, 4), what="both share")
            for lonely, other in (workers, workers[::-1]):
                network.cut(lonely.pid)
                await until(partial(share, [other], 4), seconds=30, what="the other has it all")
                network.restore()
                await until(partial(share, workers, 4), seconds=40, what="both share again")
            await asyncio.gather(*(producer.finish() for producer in producers))
            for topic, producer in zip(topics, producers, strict=True):
                arrived = partial(_have_arrived, target, topic, producer.acknowledged)
                await until(arrived, what=f"all of {topic} is at the target")
        for topic, producer in zip(topics, producers, strict=True):
            verdict = await judge(source, target, topic)
            assert verdict.clean, verdict.report()
            assert verdict.copies == producer.acknowledged


def _one_each(workers: Sequence[Worker]) -> list[set[str]] | None:
    shares = share(workers, len(workers))
    return shares if shares is not None and all(shares) else None


async def test_two_workers_that_no_broker_of_the_source_reaches_both(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Neither hears the other where leases are held, and both reach the target: each keeps what it has."""
    spec = ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2", brokers=2)
    target = await clusters.get(WEST)
    topics = [topic_name(f"{i}") for i in range(2)]
    async with clusters.lent(spec) as source, AsyncExitStack() as stack:
        networks = [
            await stack.enter_async_context(BrokerProxies(("127.0.0.2", broker.port))) for broker in source.brokers
        ]
        for topic in topics:
            await create_topic(source, topic, queues=2)
        producers = [Producer(source, topic, per_second=200) for topic in topics]
        async with (
            producing(producers),
            workers_of(source, target, tmp_path, 2, "--topics", topic_name(".*")) as workers,
        ):
            before = await until(lambda: _one_each(workers), what="each has one")
            for network, worker in zip(networks, workers, strict=True):
                network.cut(worker.pid)
            for worker in workers:
                await until(lambda worker=worker: "worker keeps its tasks" in worker.log, seconds=30)  # type: ignore[misc]
            assert share(workers, 2) == before
            assert not any("worker left" in worker.log for worker in workers)
            for network in networks:
                network.restore()
            await asyncio.gather(*(producer.finish() for producer in producers))
            for topic, producer in zip(topics, producers, strict=True):
                arrived = partial(_have_arrived, target, topic, producer.acknowledged)
                await until(arrived, what=f"all of {topic} is at the target")
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
    await create_topic(source, topic, queues=64)
    async with (
        BrokerProxies(("127.0.0.2", target.brokers[0].port)) as network,
        workers_of(source, target, tmp_path, 2, "--topics", topic, "--settle-timeout", "0.5") as workers,
    ):
        vip = target.brokers[0].port - 2
        owner = (await until(lambda: [worker for worker in workers if worker.running]))[0]
        (other,) = (worker for worker in workers if worker is not owner)
        await produce(source, topic, 1280, size=30_000)
        await until(partial(caught_up, [owner], topic), what="the line is known to carry much")
        network.vip.stall()
        await produce(source, topic, 1280, size=30_000, start=1280)
        await until(lambda: unsent(owner.pid, vip) > 1024**2, what="a request stands half written", seconds=8)
        owner.signal(signal.SIGSTOP)
        network.vip.resume()
        await until(partial(share, [other], 1), seconds=30)
        await until(partial(caught_up, [other], topic))
        owner.signal(signal.SIGCONT)
        await until(lambda: "lease lost" in owner.log)
        await produce(source, topic, 100, start=2560)
        await until(lambda: any(caught_up([worker], topic) for worker in workers))
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 2660


async def test_one_source_broker_is_down(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The group goes on, lets a worker in, and loses one; the queues of the other broker flow meanwhile."""
    spec = ClusterSpec(name="east", version="5.3.3", brokers=2)
    target = await clusters.get(WEST)
    topics = [topic_name(f"{i}") for i in range(2)]
    async with clusters.lent(spec) as source:
        for topic in topics:
            await create_topic(source, topic, queues=2)
        async with workers_of(source, target, tmp_path, 2, "--topics", topic_name(".*")) as workers:
            await until(lambda: share(workers, 2), what="both share")
            await source.brokers[0].kill()
            await until(lambda: all("WAITING" in _states(workers, topic) for topic in topics), seconds=40)
            async with Worker(
                source, target, tmp_path / "w2", "--worker-id", "w2", "--topics", topic_name(".*")
            ) as new:
                await until(lambda: len(new.ask("GET", "/getClusterInfo")[1]["workers"]) == 3, seconds=30)
                await workers[0].kill()
                left = [workers[1], new]
                await until(lambda: sorted(len(w.get("/status")["topics"]) for w in left) == [1, 1], seconds=40)
                async with connected(source) as client:
                    (alive,) = (name for name in client.brokers() if name == source.brokers[1].name)
                    for topic in topics:
                        await send(client, alive, topic, 0, [(b"x", {})] * 10)
                await until(lambda: sum(_copied(left, topic) for topic in topics) == 20, seconds=40)
                assert "lease lost" not in workers[1].log
                await source.brokers[0].start()
                await until(partial(share, left, 2), seconds=60, what="all run again")


def _states(workers: Sequence[Worker], topic: str) -> set[str]:
    return {queue["state"] for worker in workers for queue in worker.queues(topic)}


def _copied(workers: Sequence[Worker], topic: str) -> int:
    return sum(queue["copied"] for worker in workers for queue in worker.queues(topic))


async def test_two_workers_in_one_place_find_room_for_themselves(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The same command twice in one directory: other state files, another port."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    arguments = (
        "--source",
        source.namesrv,
        "--target",
        target.namesrv,
        "--topics",
        topic,
        "--worker-group",
        "here",
    )
    started = []
    try:
        for number in range(2):
            log = tmp_path / f"log{number}"
            with log.open("wb") as output:
                started.append(
                    await asyncio.create_subprocess_exec(
                        *(sys.executable, "-m", "replicator", *arguments),
                        cwd=tmp_path,
                        stdout=output,
                        stderr=output,
                    )
                )
            await until(lambda log=log: b"/metrics" in log.read_bytes(), what="it runs")  # type: ignore[misc]
        made = await asyncio.to_thread(lambda: {path.name for path in tmp_path.glob("replicator-store*")})
        assert made == {"replicator-store", "replicator-store-2"}
        written = (tmp_path / "log1").read_text()
        assert "the default port is in use" in written
        url = re.search(r"set REPLICATOR_URL=(http://127\.0\.0\.1:\d+)", written)
        assert url is not None, written
        assert f"{url[1]}/metrics" in written
        assert f'"page": "{url[1]}/"' in written
    finally:
        for process in started:
            process.kill()
            await process.wait()


async def test_system_topics_may_be_filled_with_garbage_or_deleted(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """What no worker wrote is ignored and counted; a deleted topic is made again and filled again."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    async with workers_of(source, target, tmp_path, 2, "--topics", topic, "--session-timeout", "8") as workers:
        await until(lambda: share(workers, 1))
        later = json.dumps({"version": 99, "group": "g", "worker": "w", "records": "?"}).encode()
        nested = b"[" * 100_000
        async with connected(source) as client:
            for system in ("replicator_sys_control", "replicator_sys_source_online", "replicator_sys_sink_online"):
                await send(
                    client, "east-a", system, 0, [(body, {}) for body in (b"\xff\x00", b"{}", nested, later)]
                )
        await until(lambda: _ignored(workers[0]) == {"unreadable": 9, "newer": 3})
        assert workers[0].log.count("a newer version wrote it: upgrade this worker") == 1
        for system in ("replicator_sys_control", "replicator_sys_source_online", "replicator_sys_sink_online"):
            await remove_topic(source, system)
        await until(lambda: any("has been recreated" in worker.log for worker in workers), seconds=30)
        await until(lambda: share(workers, 1), seconds=30)
        async with Worker(source, target, tmp_path / "new", "--topics", topic) as new:
            await until(partial(_same, workers[0], new, "taskConfig.json"), seconds=20)
            await produce(source, topic, 100)
            await until(lambda: sum(w.topic(topic).get("copied", 0) for w in [*workers, new]) == 100)


def _ignored(worker: Worker) -> dict[str, int]:
    found = re.findall(r'control_messages_ignored_total\{.*reason="(\w+)".*\} (\d+)', worker.get("/metrics"))
    return {kind: int(float(count)) for kind, count in found}


async def test_two_workers_of_one_name_are_refused(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The one that came later ends, and says where the other is; that one goes on."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    async with workers_of(source, target, tmp_path, 1, "--topics", topic) as (first,):
        await until(lambda: share([first], 1))
        second = Worker(source, target, tmp_path / "other", "--worker-id", "w0", "--topics", topic)
        await second.start(ready=False)
        try:
            assert await second.wait() == 3
        finally:
            await second.kill()
        assert "is used by another worker of group" in second.log
        assert f"127.0.0.1:{first.port}" in second.log
        assert first.running == [topic]


async def test_a_worker_whose_name_was_given_to_another_while_it_was_away(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """It ends when it is back, and sends nothing; the other goes on."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    async with (
        workers_of(source, target, tmp_path, 1, "--topics", topic) as (first,),
        Producer(source, topic, per_second=500) as producer,
    ):
        await until(lambda: share([first], 1))
        first.signal(signal.SIGSTOP)
        async with Worker(source, target, tmp_path / "other", "--worker-id", "w0", "--topics", topic) as second:
            await until(lambda: share([second], 1))
            await asyncio.sleep(_SESSION)  # nothing tells it, but the time: the first one has lost its lease
            first.signal(signal.SIGCONT)
            assert await first.wait() == 3
            assert f"127.0.0.1:{second.port}" in first.log
            await producer.finish()
            await until(partial(caught_up, [second], topic))
            assert second.running == [topic]
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == producer.acknowledged


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


async def test_a_worker_with_an_empty_disk_has_all_within_seconds(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The four files of all workers say the same."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 100)
    async with workers_of(source, target, tmp_path, 1, "--topics", topic) as (first,):
        await first.caught_up(topic, 100)
        new = Worker(source, target, tmp_path / "new", "--topics", topic)
        async with new:
            for name in ("connectorConfig.json", "taskConfig.json", "position.json", "offset.json"):
                await until(partial(_same, first, new, name), seconds=10, what=name)


def _same(one: Worker, other: Worker, name: str) -> bool:
    found = [json.loads((worker.store / name).read_text())["content"] for worker in (one, other)]
    return bool(found[0]) and found[0] == found[1]
