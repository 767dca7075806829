"""A failover killed at any moment and repeated at another worker ends as if it had not been interrupted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import Cluster
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, workers_of
from tests.support.offsets import commit, make_group, offsets_of
from tests.support.readiness import asked, exact
from tests.support.traffic import create_topic, judge, produce, raw_topic, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

#: A failover takes a good second of it.
MOMENTS = (0.0, 3.0)


async def _is_ready(worker: Worker) -> bool:
    return bool((await asked(worker, "GET", "readiness"))["ready"])


async def _copies_when_opened(target: Cluster, topic: str) -> int:
    """How many copies there were when the topic could first be written to."""

    async def writable() -> bool:
        return any(topics[topic].perm & 2 for topics in (await topics_of(target)).values())

    await until(writable, seconds=120)
    return sum(map(len, (await raw_topic(target, topic)).values()))


@pytest.mark.parametrize("seed", range(3))
async def test_killed_at_any_moment_and_repeated_at_another_worker(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], seed: int
) -> None:
    """Every message once, topics open, the group at its message; nobody can write while the route still does."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=4)
    await produce(source, topic, 400)
    await make_group(source, group)
    await commit(source, group, topic, {("east-a", queue): 30 for queue in range(4)})
    synced = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    flags = (*synced, "--protect-target", "--session-timeout", "3", "--rate-messages", "2000")
    async with workers_of(source, target, tmp_path, 2, *flags) as (first, second):
        await until(lambda: sum(len(w.running) for w in (first, second)) == 1)
        await until(partial(_is_ready, second), what="ready to switch")
        await produce(source, topic, 3000, start=400)
        opened = asyncio.create_task(_copies_when_opened(target, topic))
        switching = asyncio.create_task(asked(first, "POST", "failover", {"drain_timeout": 30}))
        await asyncio.sleep(random.Random(seed).uniform(*MOMENTS))
        await first.kill()
        with suppress(OSError, AssertionError):
            await switching
        report = await asked(second, "POST", "failover", {"drain_timeout": 60})
        assert await opened == 3400, "it was writable while the route still wrote to it"
        assert (report["stopped"], report["drained"], report["problems"]) == (True, True, []), report
        perms = {topics[topic].perm for topics in (await topics_of(target)).values()}
        assert perms == {6}
        await exact(source, target, group, topic)
        assert await offsets_of(target, group, topic) == {("west-a", queue): 30 for queue in range(4)}
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == 3400
