"""Where a group holds its leases: on one log alone, whichever cluster it is on, whoever is cut off from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.exit_codes import ExitCode
from replicator.sandbox import Cluster
from tests.client.peer import unused_port
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, workers_of
from tests.support.readiness import asked, health
from tests.support.traffic import create_topic, judge, produce, raw_topic, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)


async def copies(target: Cluster, topic: str) -> int:
    return sum(map(len, (await raw_topic(target, topic)).values()))


async def writable(target: Cluster, topic: str) -> bool:
    return any(topics[topic].perm & 2 for topics in (await topics_of(target)).values())


async def read_only(target: Cluster, topic: str) -> bool:
    return not await writable(target, topic)


async def test_a_group_may_coordinate_over_the_target(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Nothing is created at the source; tasks are taken over; who coordinates elsewhere is refused."""
    topic, target = topic_name("t"), await clusters.get(WEST)
    async with clusters.fresh(EAST) as source:
        await create_topic(source, topic, queues=4)
        await produce(source, topic, 200)
        before = await topics_of(source)
        flags = ("--topics", topic, "--session-timeout", "3", "--coordination", "target")
        async with workers_of(source, target, tmp_path, 2, *flags) as (first, second):
            await until(lambda: len(first.running) + len(second.running) == 1)
            owner, other = (first, second) if first.running else (second, first)
            await owner.caught_up(topic, 200)
            assert await topics_of(source) == before
            refused = Worker(source, target, tmp_path / "third", "--topics", topic, "--session-timeout", "3")
            await refused.start(ready=False)
            assert await refused.wait() == ExitCode.UNUSABLE
            assert "coordination = 'source': worker 'w" in refused.log
            assert "coordinates at the target" in refused.log
            await owner.kill()
            await produce(source, topic, 100, start=200)
            await until(lambda: other.running == [topic], what="the task is taken over")
            await other.caught_up(topic, 100)
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 300


async def test_a_failover_by_a_worker_that_is_cut_off_from_the_source(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """To it the source is dead, but another worker copies: that one stops before anything is opened."""
    topic = topic_name("t")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=4)
    flags = ("--topics", topic, *SYNC_QUICKLY, "--protect-target", "--session-timeout", "3")
    slowly = ("--rate-messages", "500", "--drain-timeout", "3", "--memory-bytes", "4MiB")
    async with Worker(source, target, tmp_path / "a", *flags, *slowly) as copying:
        await until(lambda: copying.running == [topic])
        await until(lambda: copying.metric("state_mirror_last_success_timestamp_seconds") > 0)
        await until(partial(read_only, target, topic))
        await produce(source, topic, 100_000)
        await until(lambda: copying.topic(topic).get("copied", 0) > 500)
        async with Worker(f"127.0.0.1:{unused_port()}", target, tmp_path / "b", *flags) as cut_off:
            await until(lambda: "the source is away" in health(cut_off)[1].get("worker", ""))
            await until(lambda: cut_off.ask("GET", "/connectors/route/status")[0] == 200, what="it knows the group")
            opened = asyncio.create_task(until(partial(writable, target, topic), what="the topic is opened"))
            report = asyncio.create_task(asked(cut_off, "POST", "failover", {"source_dead": True}))
            try:
                await opened
            except TimeoutError:
                pytest.fail(f"not opened; the failover: {await report}")
            at_opening = await copies(target, topic)
            assert (await report)["stopped"]
            await asyncio.sleep(2)
            assert await copies(target, topic) == at_opening < 100_000
            assert copying.running == []
            assert copying.ask("GET", "/connectors/route/status")[1]["connector"]["state"] == "STOPPED"
    verdict = await judge(source, target, topic)
    assert not verdict.duplicated
    assert not verdict.out_of_order
