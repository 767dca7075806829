"""The source site is gone with its brokers, name server, workers and their disks: a new worker can fail over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.offsets import commit, make_group, offsets_of
from tests.support.readiness import asked, exact, health, ready
from tests.support.traffic import create_topic, has_perm, judge, perms, produce
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
FLAGS = (*SYNC_QUICKLY, "--protect-target", "--session-timeout", "3")


def secret(directory: Path) -> str:
    """The file of the group's secret: the mirror is signed, too."""
    file = directory / "secret"
    file.write_text("a secret of more than thirty-two characters")
    file.chmod(0o600)
    return str(file)


def is_away(worker: Worker) -> bool:
    return "the source is away" in health(worker)[1].get("worker", "")


def state(worker: Worker) -> str:
    return str(worker.ask("GET", "/connectors/route/status")[1]["connector"]["state"])


async def test_nothing_of_the_source_is_left(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """A worker without disk finds the group at the target and fails over; nothing is copied once it returns."""
    topic, group = topic_name("t"), topic_name("g")
    target = await clusters.get(WEST)
    async with clusters.fresh(EAST) as source:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 200)
        await make_group(source, group)
        await commit(source, group, topic, {("east-a", 0): 20, ("east-a", 1): 50})
        flags = ("--topics", topic, "--sync-groups", group, *FLAGS)
        async with Worker(source, target, tmp_path / "old", *flags) as old:
            await ready(old)
            await until(partial(has_perm, target, topic, 4))
            at = time.time()
            await until(lambda: old.metric("state_mirror_last_success_timestamp_seconds") > at)
            await old.kill()
        await produce(source, topic, 30, start=200)  # nobody copies them in time
        for node in source.nodes:
            await node.kill()
        # Neither the worker group nor ids are given: the mirror says them.
        async with Worker(source, target, tmp_path / "new", *flags) as new:
            await until(lambda: is_away(new), what="it stands by")
            await until(lambda: state(new) == "RUNNING", what="the connector is known")
            report = await asked(new, "POST", "failover", {"source_dead": True})
            assert (report["stopped"], report["topics_opened"], report["drained"]) == (True, [topic], False)
            assert await perms(target, topic) == {6}
            assert await offsets_of(target, group, topic) == {("west-a", 0): 20, ("west-a", 1): 50}
            # Repeated at another worker that has just come: the same.
            async with Worker(source, target, tmp_path / "third", *flags) as third:
                await until(lambda: is_away(third) and state(third) == "STOPPED")
                assert (await asked(third, "POST", "failover", {"source_dead": True}))["problems"] == []
            for node in source.nodes:
                await node.start()
            await until(lambda: not is_away(new), what="it joins its group again")
            await produce(source, topic, 50, start=230)
            # One that slept all the time, with state files from before, learns of the stop as well.
            async with Worker(source, target, tmp_path / "old", *flags) as old:
                await until(lambda: health(old)[1].keys() == {"route"} and health(new)[1].keys() == {"route"})
                await asyncio.sleep(3)
                assert {state(old), state(new)} == {"STOPPED"}
                assert old.running == new.running == []
                verdict = await judge(source, target, topic)
                assert verdict.copies == 200
                # What the source had taken and nobody copied is copied once somebody lets it.
                assert new.ask("PUT", "/connectors/route/resume")[0] == 200
                await until(
                    lambda: sum(w.metric("lag_messages") for w in (old, new)) == 0 and old.running != new.running
                )
                await exact(source, target, group, topic)
                assert sum(worker.metric("late_messages_total") for worker in (old, new)) == 30
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 280
