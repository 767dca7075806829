"""Groups of real workers on real brokers: they share the work, and survive the loss of any."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, caught_up, producing, share, workers_of
from tests.support.traffic import Producer, create_topic, judge, produce, raw_topic, remove_topic
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(400)


async def _topics(source: Cluster, name: Callable[[str], str], count: int, *, queues: int = 1) -> list[str]:
    """Topics at the source, of so many queues each at each of its brokers."""
    topics = [name(f"{i:03}") for i in range(count)]
    for topic in topics:
        await create_topic(source, topic, queues=queues)
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
        producing(producers),
        workers_of(source, target, tmp_path, 3, "--topics", topic_name(".*")) as workers,
    ):
        shares = await until(lambda: share(workers, 200), what="all share")
        assert all(66 <= len(share) <= 67 for share in shares)
        for victim in workers:
            others = [worker for worker in workers if worker is not victim]
            await victim.kill()
            begin = time.monotonic()
            await until(partial(share, others, 200), seconds=30, what="the others have it all")
            assert time.monotonic() - begin < 10 + 2  # and the time that this test takes to see it
            await victim.start()
            await until(lambda: share(workers, 200), seconds=30, what="it has a share again")
        await asyncio.gather(*(producer.finish() for producer in producers))
        for topic in busy:
            await until(partial(caught_up, workers, topic), what=f"{topic} caught up")
    assert len(idle) + len(busy) == 200
    for topic, producer in zip(busy, producers, strict=True):
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged


async def test_a_worker_that_was_paused_does_no_harm(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], pause_seconds: float
) -> None:
    """Longer than others wait for it, under load: its queues go on elsewhere, and nothing is sent twice.

    `--pause-seconds 60` makes it a minute.
    """
    source, target = await clusters.pair(EAST, WEST)
    topics = await _topics(source, topic_name, 4, queues=2)
    producers = [Producer(source, topic, per_second=200, size=4000) for topic in topics]
    async with (
        producing(producers),
        workers_of(source, target, tmp_path, 2, "--topics", topic_name(".*")) as workers,
    ):
        await until(partial(_all_share, workers, 4), what="both share")
        for zombie, other in (workers, workers[::-1]):
            zombie.signal(signal.SIGSTOP)
            ends = time.monotonic() + pause_seconds
            try:
                await until(partial(share, [other], 4), seconds=30, what="the other has it all")
                await asyncio.sleep(max(0.0, ends - time.monotonic()))
            finally:
                zombie.signal(signal.SIGCONT)
            await until(partial(_has_lost_its_lease, zombie), what="the lease is lost")
            await until(partial(_all_share, workers, 4), seconds=30, what="both share again")
        await asyncio.gather(*(producer.finish() for producer in producers))
        for topic in topics:
            await until(partial(caught_up, workers, topic), what=f"{topic} caught up")
            assert sum(worker.topic(topic).get("duplicates", 0) for worker in workers) == 0
    for topic, producer in zip(topics, producers, strict=True):
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged


def _has_lost_its_lease(worker: Worker) -> bool:
    return "lease lost" in worker.log


def _all_share(workers: Sequence[Worker], topics: int) -> bool:
    shares = share(workers, topics)
    return shares is not None and all(shares)


async def test_a_rolling_restart_repeats_nothing(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """To another version: each worker in turn drains, its queues go on within two seconds, while messages flow."""
    source, target = await clusters.pair(EAST, WEST)
    topics = await _topics(source, topic_name, 3, queues=2)
    producers = [Producer(source, topic, per_second=200) for topic in topics]
    async with (
        producing(producers),
        workers_of(source, target, tmp_path, 3, "--topics", topic_name(".*")) as workers,
    ):
        await until(lambda: share(workers, 3), what="all share")
        for number, worker in enumerate(workers):
            others = [other for other in workers if other is not worker]
            worker.signal(signal.SIGTERM)
            begin = time.monotonic()
            await until(partial(share, others, 3), seconds=20)
            assert time.monotonic() - begin < 2 + 1  # and the time that this test takes to see it
            assert await worker.wait() == 0
            workers[number] = await _upgraded(worker, source, target, tmp_path / f"w{number}", topic_name(".*"))
            await until(lambda: share(workers, 3), seconds=20)
        versions = [worker["version"] for worker in workers[0].ask("GET", "/getClusterInfo")[1]["workers"]]
        assert versions == ["99.0"] * 3
        await asyncio.gather(*(producer.finish() for producer in producers))
        for topic in topics:
            await until(partial(caught_up, workers, topic))
    for topic, producer in zip(topics, producers, strict=True):
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged


async def _upgraded(old: Worker, source: Cluster, target: Cluster, directory: Path, topics: str) -> Worker:
    """The same worker, of a later version."""
    later = "import replicator; replicator.__version__ = '99.0'; from replicator.cli import main; main()"
    name = directory.name
    new = Worker(source, target, directory, "--worker-id", name, "--topics", topics, program=("-c", later))
    assert new.store == old.store
    await new.start()
    return new


async def test_a_fourth_worker_takes_a_quarter_and_stops_no_other(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Queues as tasks, two brokers; the granularity is changed while they run."""
    source, target = await clusters.pair(ClusterSpec(name="east", version="5.3.3", brokers=2), WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=10)
    flags = ("--topics", topic, "--task-granularity", "queue")
    async with workers_of(source, target, tmp_path, 3, *flags) as workers:
        await until(lambda: sorted(len(w.queues(topic)) for w in workers) == [6, 7, 7])
        await until(lambda: all(q["state"] == "RUNNING" for w in workers for q in w.queues(topic)))
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


def _owners(workers: Sequence[Worker], topic: str) -> dict[tuple[str, int], int]:
    return {
        (queue["source"]["broker"], queue["source"]["queue"]): number
        for number, worker in enumerate(workers)
        for queue in worker.queues(topic)
    }


async def test_limits_keep_no_worker_from_leaving(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """What they hold back is left to others, who have it once: a minute's worth of it was pulled."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=4)
    await produce(source, topic, 6000)
    async with workers_of(source, target, tmp_path, 2, "--topics", topic, "--rate-messages", "100") as workers:
        await until(lambda: any(worker.has_copied(topic, 200) for worker in workers), what="one copies")
        leaving, other = workers if workers[0].running else workers[::-1]
        assert await leaving.drain() == 0  # within its `drain_timeout` of 30 s
        await other.set_rates()
        await other.caught_up(topic, 1)
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == 6000


async def test_what_one_worker_does_not_need_of_a_limit_another_has(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """One of two topics has a backlog; each worker's tasks stand for about half of the limit."""
    source, target = await clusters.pair(EAST, WEST)
    topics = await _topics(source, topic_name, 2, queues=2)
    flags = ("--topics", topic_name(".*"), "--rate-messages", "200", "--state-publish-interval", "0.5")
    async with workers_of(source, target, tmp_path, 2, *flags) as workers:
        await until(partial(_all_share, workers, 2), what="both share")
        await produce(source, topics[0], 4000)
        await until(lambda: any(worker.has_copied(topics[0], 4000) for worker in workers), what="it is copied")
    stored = sorted(
        message.store_timestamp for queue in (await raw_topic(target, topics[0])).values() for message in queue
    )
    later = stored[1000:]
    rate = len(later) / (later[-1] - later[0]) * 1000
    assert 150 < rate < 220, rate


async def test_the_logs_say_who_did_what_and_why(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Each line of two workers is JSON, also when one of them was paused and what is scheduled has piled up."""
    source, target = await clusters.pair(EAST, WEST)
    topics = await _topics(source, topic_name, 2, queues=2)
    flags = ("--topics", topic_name(".*"), "--heartbeat-interval", "0.2", "--state-publish-interval", "0.2")
    async with workers_of(source, target, tmp_path, 2, *flags) as workers:
        first, second = workers
        await until(partial(_all_share, workers, 2), what="both share")
        for verb, shared in (("pause", False), ("resume", True), ("stop", False), ("resume", True)):
            assert first.ask("PUT", f"/connectors/route/{verb}")[0] == 200
            await until(lambda shared=shared: bool(share(workers, 2)) is shared, what=verb)  # type: ignore[misc]
        await until(partial(_all_share, workers, 2), what="both share again")
        second.signal(signal.SIGSTOP)  # what is scheduled there piles up
        await asyncio.sleep(1)
        second.signal(signal.SIGCONT)
        assert await second.drain() == 0
        await until(partial(share, [first], 2), what="the first has it all")
        await remove_topic(source, topics[1])
        await until(partial(share, [first], 1), what="the deleted topic has no task any more")
        assert await first.drain() == 0
        told, others = ([json.loads(line) for line in worker.log.splitlines()] for worker in workers)
    assert [each["event"] for each in told if each.get("actor") == "REST 127.0.0.1 (admin)"] == [
        "connector paused",
        "connector resumed",
        "connector stopped",
        "connector resumed",
    ]
    assert {each["change"] for each in others if each["event"] == "connector changed at another worker"} == {
        *("RUNNING -> PAUSED", "PAUSED -> RUNNING", "RUNNING -> STOPPED", "STOPPED -> RUNNING")
    }
    stopped = {each["reason"] for each in [*told, *others] if each["event"] == "task stopped"}
    assert stopped >= {"its connector is paused", "this worker is stopping"}
    started = {(each["reason"], each["worker"]) for each in [*told, *others] if each["event"] == "task started"}
    assert {reason for reason, _ in started} >= {"assigned", "started again"}
    assert ("taken over from w1", "w0") in started
    assert {each["after"] for each in [*told, *others] if "after" in each} >= {"its connector is paused"}
    assert [each["topic"] for each in told if "topic was deleted" in each["event"]] == [topics[1]]
    assert [each for each in told if each["event"] == "task has new queues"] == []
    for log in (told, others):
        generations = [each["generation"] for each in log if each["event"] == "tasks assigned"]
        assert len(generations) == len({*generations})
        assert {each["module"] for each in log if each["module"].startswith("apscheduler")} == set()
        about = [each for each in log if {"topic", "queue"} & each.keys()]
        assert [each for each in about if "connector" not in each] == []
        assert [each for each in about if not re.fullmatch(r"[^/]+/[^/]+/\d+", each.get("queue", "t/b/0"))] == []
    assert any("w1 -> w0" in each["moves"] for each in told if each["event"] == "tasks assigned")
