"""A route that has Spark copy the backlog of its queues: tasks have one owner as ever, whatever happens to it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.spark.waiting import ends
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, caught_up, share
from tests.support.guarded import access, assert_hidden
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, judge, produce
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(400)

BY_SPARK = ("--spark-master", "local[2,4]")


def _logged(worker: Worker, event: str) -> list[dict[str, object]]:
    return [each for each in worker.events if each["event"] == event]


async def test_spark_copies_what_is_there_and_the_live_tasks_go_on(scene: SceneOf) -> None:
    """Under load; and once: a queue that has been copied before, and a new one, are live from the beginning."""
    async with scene() as here:
        await here.produce(6000)
        async with here.producer(per_second=500) as load:
            async with here.worker("--backfill", *BY_SPARK) as worker:
                await until(lambda: _logged(worker, "backfill ended"), what="the backfill ended")
                await load.finish()
                total = 6000 + load.acknowledged
                await worker.caught_up(here.topic, total)
                (begun,) = _logged(worker, "backfill begins")
                assert begun["queues"] == 4
                assert 5000 < int(str(begun["messages"])) <= total
                assert await worker.drain() == 0
            async with here.worker("--backfill", *BY_SPARK) as worker:
                await here.produce(100, start=total)
                await worker.caught_up(here.topic, 100)
                assert len(_logged(worker, "backfill begins")) == 1
        await here.assert_clean(total + 100)


async def test_by_default_spark_copies_where_enough_is_behind(scene: SceneOf) -> None:
    """Also of queues that have been copied before: their worker was away for long."""
    async with scene() as here:
        await here.produce(900)
        flags = (*BY_SPARK, "--backfill-min-lag", "1000")
        async with here.worker(*flags) as worker:
            await worker.caught_up(here.topic, 900)
            assert not _logged(worker, "backfill begins")
            assert await worker.drain() == 0
        await here.produce(2000, start=900)
        async with here.worker(*flags) as worker:
            await worker.caught_up(here.topic, 2000)
            await until(lambda: _logged(worker, "backfill ended"), what="the backfill ended")
        await here.assert_clean(2900)


async def test_a_topic_with_history_is_selected_later(scene: SceneOf, topic_name: Callable[[str], str]) -> None:
    """Spark copies it as it copied the first ones; one that is as good as new goes on live at once."""
    later, new = topic_name("later"), topic_name("new")
    async with scene(queues=1) as here:
        await here.produce(100)
        for topic, count in ((later, 3000), (new, 20)):
            await create_topic(here.source, topic, queues=2)
            await produce(here.source, topic, count)
        async with here.worker("--backfill", *BY_SPARK) as worker:
            await until(lambda: _logged(worker, "backfill ended"), what="the first backfill ended")
            config = worker.get("/connectors/route/config")["body"]
            for topic, count in ((new, 20), (later, 3000)):
                config["topics"] = [*config["topics"], topic]
                assert worker.ask("PUT", "/connectors/route", config)[0] == 200
                await worker.caught_up(topic, count)
            await until(lambda: len(_logged(worker, "backfill ended")) == 2, what="the later backfill ended")
            begun = [(each["queues"], each["messages"]) for each in _logged(worker, "backfill begins")]
            assert begun == [(1, 100), (2, 3000)]
        for topic in (later, new):
            verdict = await judge(here.source, here.target, topic)
            assert verdict.clean, verdict.report()


async def test_drained_while_spark_copies_and_then_spark_dies(scene: SceneOf) -> None:
    """A worker that is told to end gives Spark's tasks up first; where Spark dies, the live tasks copy the rest."""
    async with scene() as here:
        await here.produce(8000)
        flags = ("--backfill", *BY_SPARK, "--rate-messages", "1000")
        async with here.worker(*flags) as worker:
            await until(lambda: _moves(worker), what="Spark copies")
            assert await worker.drain() == 0
        async with here.worker(*flags, "--drain-timeout", "1") as worker:
            await until(lambda: _moves(worker), what="Spark copies what is left")
            os.kill(_java_of(worker), signal.SIGKILL)
            await until(lambda: _logged(worker, "backfill ended early: the live tasks copy the rest"))
            await worker.set_rates()
            await worker.caught_up(here.topic, 1)
            await here.produce(100, start=8000)

            async def all_there() -> bool:
                return sum(await ends(here.target, here.topic)) == 8100

            await until(all_there, what="what came since is copied too")
        await here.assert_clean(8100)


async def test_between_guarded_clusters(scene: SceneOf) -> None:
    """Spark's tasks sign and encrypt as the worker does, and no secret gets out by them."""
    old = ClusterSpec(name="east", version="4.9.7", acl="1.0")
    new = ClusterSpec(name="west", version="5.3.3", tls=True)
    async with scene(source=old, target=new, queues=2) as here:
        await here.produce(3000)
        environment = access("SOURCE", here.source) | access("TARGET", here.target)
        flags = ("--backfill", *BY_SPARK, "--rate-messages", "500")
        async with here.worker(*flags, environment=environment) as worker:
            await until(lambda: _moves(worker), what="Spark copies")
            started = _command_of(_java_of(worker))
            await worker.set_rates()
            await until(lambda: _logged(worker, "backfill ended"), what="the backfill ended")
            await worker.caught_up(here.topic, 3000)
            assert not _logged(worker, "backfill ended early: the live tasks copy the rest")
            assert_hidden(here.source.secret_key, worker, started)
        await here.assert_clean(3000)


async def test_nothing_comes_twice_when_the_owner_changes(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The owner is paused, but not its Spark; another takes over; the first comes back while the other's copies."""
    source, target = await clusters.pair(EAST, WEST)
    topics = [topic_name(str(number)) for number in range(4)]
    for topic in topics:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 5000)
    flags = ("--topics", topic_name(".*"), "--backfill", *BY_SPARK, "--rate-messages", "1000")
    first, second = (Worker(source, target, tmp_path / name, "--worker-id", name, *flags) for name in ("w0", "w1"))
    async with first:
        await until(lambda: _moves(first), what="Spark copies")
        first.signal(signal.SIGSTOP)
        async with second:
            await until(lambda: "RUNNING" in _states(second), what="the other's Spark has copied a queue")
            first.signal(signal.SIGCONT)
            await until(lambda: _logged(second, "backfill interrupted: some of its tasks end here"))
            await second.set_rates()
            await until(lambda: share([first, second], 4), seconds=90, what="both have a share")
            for topic in topics:
                await until(partial(caught_up, [first, second], topic), seconds=90, what=f"{topic} caught up")
    for topic in topics:
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 5000


def _queues(worker: Worker) -> list[dict[str, str]]:
    queues: list[dict[str, str]] = worker.get("/status/queues")
    return queues


def _moves(worker: Worker) -> bool:
    return re.search("by Spark: [1-9]", str(_queues(worker))) is not None


def _java_of(worker: Worker) -> int:
    command = ["pgrep", "-P", str(worker.pid), "java"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _command_of(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text()


def _states(worker: Worker) -> set[str]:
    return {queue["state"] for queue in _queues(worker)}
