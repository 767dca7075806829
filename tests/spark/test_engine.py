"""A route whose engine is Spark: its queues live in Spark's tasks, and all else is as with a live route."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.protocol import properties
from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, share, workers_of
from tests.support.offsets import are_at, commit, make_group, offsets_of
from tests.support.packages import TRANSFORMS_PAGE, example, install
from tests.support.processes import running_processes
from tests.support.readiness import asked, exact, ready
from tests.support.scene import SceneOf
from tests.support.traffic import connected, create_topic, judge, produce, raw_topic, remove_topic, send
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = [pytest.mark.timeout(400), pytest.mark.spark]

BY_SPARK = ("--engine", "spark", "--spark-master", "local[2,4]")


def tasks_of(worker: Worker) -> list[int]:
    """The processes in which Spark's tasks run Python: each was forked by Spark's daemon."""
    table = {each.pid: each for each in running_processes()}
    ours, grown = {worker.pid}, True
    while grown:
        children = {pid for pid, each in table.items() if each.parent in ours} - ours
        ours, grown = ours | children, bool(children)
    daemons = {pid for pid in ours if "pyspark.daemon" in table[pid].command} if len(ours) > 1 else set()
    return [pid for pid in daemons if table[pid].parent in daemons]


def set_engine(worker: Worker, engine: str, **settings: object) -> None:
    """As an operator does, while it runs."""
    config = worker.get("/connectors/route/config")["body"]
    status, answer = worker.ask("PUT", "/connectors/route", config | {"engine": engine} | settings)
    assert status == 200, answer


def began(worker: Worker) -> int:
    return sum(each["event"] == "Spark task began" for each in worker.events)


def all_run(worker: Worker, topic: str) -> Callable[[], bool]:
    return lambda: {queue["state"] for queue in worker.queues(topic)} == {"RUNNING"}


async def only_behind(worker: Worker) -> bool:
    """Whether nothing keeps groups from being switched but messages that are under way, as under load."""
    reasons = (await asked(worker, "GET", "readiness"))["reasons"]
    return all(reason.endswith("not at the target yet") for reason in reasons)


async def test_live_to_spark_and_back_under_load(scene: SceneOf, topic_name: Callable[[str], str]) -> None:
    """With a task and the worker killed in Spark: every message once, in order, and groups ready throughout."""
    group = topic_name("g")
    async with scene(queues=4) as here:
        await here.produce(2000)
        await make_group(here.source, group)
        flags = ("--spark-master", "local[2,4]", "--sync-groups", group, *SYNC_QUICKLY)

        async def go_on(at: int) -> None:
            """The group consumes a little more, and might be switched but for what was just sent."""
            await commit(here.source, group, here.topic, {("east-a", queue): at + queue for queue in range(4)})
            await until(partial(only_behind, worker), seconds=30, what="nothing else stands in the way of a switch")
            wanted = {("west-a", queue): at + queue for queue in range(4)}
            await until(partial(are_at, here.target, group, here.topic, wanted), what="the group's offsets follow")

        async with here.producer(per_second=400) as load:
            worker = here.worker(*flags)
            async with worker:
                await until(all_run(worker, here.topic), seconds=30)
                await go_on(100)
                set_engine(worker, "spark")
                await until(lambda: began(worker) == 2, seconds=90, what="Spark copies")
                await until(all_run(worker, here.topic), seconds=30)
                await go_on(120)
                os.kill(tasks_of(worker)[0], signal.SIGKILL)
                await until(lambda: began(worker) == 3, seconds=30, what="another task begins")
                await until(all_run(worker, here.topic), seconds=30, what="all flow again")
                await go_on(140)
                await worker.kill()
            worker = here.worker(*flags)
            async with worker:
                await until(lambda: began(worker) > 0, seconds=90, what="Spark copies for the next worker")
                await until(all_run(worker, here.topic), seconds=60)
                await go_on(160)
                set_engine(worker, "live")
                await until(lambda: not tasks_of(worker), seconds=30, what="Spark's tasks end")
                await until(all_run(worker, here.topic), seconds=30)
                await load.finish()
                await worker.caught_up(here.topic, 1)
                await go_on(180)
                assert (await ready(worker))["reasons"] == []
                assert await worker.drain() == 0
        await here.assert_clean(2000 + load.acknowledged)
        await exact(here.source, here.target, group, here.topic)


async def test_all_but_what_copies_is_as_with_a_live_route(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics that are empty, come and go; transforms; offsets; a failover."""
    transforms, sites = {"mask": "Mask", "drop-tests": "DropTests"}, tmp_path / "site"
    install(sites, "transforms_of_others", example(TRANSFORMS_PAGE), "transforms", transforms)
    monkeypatch.setenv("PYTHONPATH", str(sites))
    source, target = await clusters.pair(EAST, WEST)
    kept, empty, gone, left, new = (topic_name(name) for name in ("kept", "empty", "gone", "left", "new"))
    for topic in (kept, empty, gone, left):
        await create_topic(source, topic, queues=2)
    for topic in (kept, gone, left):
        await produce(source, topic, 200)
    async with connected(source) as client:
        await send(client, "east-a", kept, 0, [(b"no order", {"TAGS": "test"})] * 20)
    group = topic_name("g")
    await make_group(source, group)
    await commit(source, group, kept, {("east-a", 0): 90, ("east-a", 1): 40})
    flags = ("--topics", topic_name(".*"), "--sync-groups", group, *SYNC_QUICKLY, "--protect-target")
    async with Worker(source, target, tmp_path, *flags, "--transforms", "drop-tests", *BY_SPARK) as worker:

        def flows(*topics: str) -> bool:
            queues = [queue for topic in topics for queue in worker.queues(topic)]
            return len(queues) == 2 * len(topics) and {queue["state"] for queue in queues} == {"RUNNING"}

        await until(lambda: flows(kept, empty, gone, left), seconds=90, what="Spark copies")
        await worker.caught_up(kept, 200)
        assert sum(queue["skipped"].get("transform", 0) for queue in worker.queues(kept)) == 20
        await remove_topic(source, gone)
        await asyncio.to_thread(set_engine, worker, "spark", exclude_topics=[left])
        await create_topic(source, new, queues=2)
        await until(lambda: flows(kept, empty, new), seconds=60, what="the others flow")
        await until(lambda: not worker.queues(gone) and not worker.queues(left))
        await remove_topic(target, gone)  # as readiness asks for
        for topic in (empty, new):
            await produce(source, topic, 200)
        for topic in (empty, new):
            await worker.caught_up(topic, 200)
        await ready(worker)
        report = await asked(worker, "POST", "failover", {})
        assert (report["stopped"], report["drained"], report["problems"]) == (True, True, [])
        assert await worker.drain() == 0
    assert await offsets_of(target, group, kept) == {("west-a", 0): 90, ("west-a", 1): 40}
    for topic in (empty, new):
        assert (await judge(source, target, topic)).clean
        assert (await judge(source, target, topic)).copies == 200


async def test_a_queue_fails_alone_and_an_owner_dies(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Two workers, each with a Spark of its own: the other takes over; one queue that fails holds up no other."""
    source, target = await clusters.pair(ClusterSpec(name="east", version="5.5.0"), WEST)
    topics = [topic_name(str(number)) for number in range(2)]
    for topic in topics:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 200)
    flags = (
        "--topics",
        topic_name(".*"),
        "--engine",
        "spark",
        "--spark-master",
        "local[1,4]",
        "--tags",
        "tag0,tag1",
    )
    async with workers_of(source, target, tmp_path, 2, *flags) as workers:
        await until(lambda: share(workers, 2), seconds=120, what="each has a topic")
        async with connected(source) as client:
            await send(client, "east-a", topics[0], 0, [(b"", {"TAGS": "tag0", "p": "x" * 32_740})])

        def states() -> set[tuple[int, str]]:
            found = [queue for worker in workers if worker.pid for queue in worker.queues(topics[0])]
            return {(queue["source"]["queue"], queue["state"]) for queue in found}

        await until(lambda: states() == {(0, "FAILED"), (1, "RUNNING")})
        (owner,) = [worker for worker in workers if worker.queues(topics[0])]
        other = workers[workers[0] is owner]
        (failed,) = [queue for queue in owner.queues(topics[0]) if queue["state"] == "FAILED"]
        assert "its properties are" in failed["reason"]
        assert sum(queue["skipped"]["filter"] for queue in owner.queues(topics[0])) == 66
        await owner.kill()
        for topic in topics:
            await produce(source, topic, 100, start=200)
        await until(lambda: len(other.queues(topics[0])) == 2, seconds=30, what="the other takes over")

        def all_but_one() -> bool:
            queues = other.queues(topics[0]) + other.queues(topics[1])
            flowing = [queue for queue in queues if queue["state"] == "RUNNING"]
            return len(queues) - 1 == len(flowing) == 3 and all(q["position"] == q["max_offset"] for q in flowing)

        await until(all_but_one, seconds=60, what="all but that queue flow again")
    for topic in topics:
        for (_, queue), messages in (await raw_topic(target, topic)).items():
            numbers = [int(properties.decode(message.properties)["n"]) for message in messages]
            assert numbers == sorted(set(numbers)), (topic, queue)
