"""Some topics of a route are switched to the target, the others are copied on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import Cluster
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, workers_of
from tests.support.offsets import commit, make_group, offsets_of
from tests.support.readiness import asked
from tests.support.traffic import Producer, create_topic, judge, produce, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)


async def has_perm(cluster: Cluster, topic: str, perm: int) -> bool:
    return {topics[topic].perm for topics in (await topics_of(cluster)).values()} == {perm}


async def is_ready(worker: Worker) -> bool:
    return bool((await asked(worker, "GET", "readiness"))["ready"])


async def test_one_of_two(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """While messages flow into the other: that one misses nothing, repeats nothing, and stays protected."""
    moved, kept, group = topic_name("moved"), topic_name("kept"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    for topic in (moved, kept):
        await create_topic(source, topic, queues=2)
    await produce(source, moved, 200)
    await make_group(source, group)
    await commit(source, group, moved, {("east-a", 0): 20, ("east-a", 1): 50})
    flags = ("--topics", topic_name(".*"), "--sync-groups", group, *SYNC_QUICKLY, "--protect-target")
    async with workers_of(source, target, tmp_path, 2, *flags, "--session-timeout", "3") as (first, second):
        await until(lambda: len(first.running) + len(second.running) == 2)
        await until(partial(is_ready, first))
        async with Producer(source, kept) as producer:
            await until(lambda: producer.acknowledged > 100)
            report = await asked(first, "POST", "failover", {"topics": [moved]})
            assert (report["stopped"], report["drained"], report["problems"]) == (True, True, [])
            assert (report["topics"], report["topics_opened"]) == ([moved], [moved])
            assert [each["topic"] for each in report["groups"]] == [moved]
            sent = producer.acknowledged
            await until(lambda: producer.acknowledged > sent + 200)
        await until(lambda: first.running + second.running == [kept])
        await produce(source, moved, 50, start=200)
        await until(lambda: sum(w.metric("lag_messages") for w in (first, second)) == 0)
        assert await has_perm(target, moved, 6)
        assert await has_perm(target, kept, 4)
        assert await offsets_of(target, group, moved) == {("west-a", 0): 20, ("west-a", 1): 50}
        verdict = await judge(source, target, kept)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged
        assert (await judge(source, target, moved)).copies == 200
