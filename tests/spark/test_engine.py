"""A route whose engine is Spark: its queues live in Spark's tasks, and all else is as with a live route."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.scene import SceneOf
from tests.support.worker import Worker, until

pytestmark = [pytest.mark.timeout(400), pytest.mark.spark]

BY_SPARK = ("--engine", "spark", "--spark-master", "local[2,4]")


def tasks_of(worker: Worker) -> list[int]:
    """The processes in which Spark's tasks run Python: each was forked by Spark's daemon."""
    table = dict(_processes())
    ours, grown = {worker.pid}, True
    while grown:
        children = {pid for pid, (parent, _) in table.items() if parent in ours} - ours
        ours, grown = ours | children, bool(children)
    daemons = {pid for pid in ours if "pyspark.daemon" in table[pid][1]} if len(ours) > 1 else set()
    return [pid for pid in daemons if table[pid][0] in daemons]


def _processes() -> Iterator[tuple[int, tuple[int, str]]]:
    """Process ids, each with its parent's and its command line."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                yield int(each.name), (parent, (each / "cmdline").read_text().replace("\0", " "))


def set_engine(worker: Worker, engine: str) -> None:
    """As an operator does, while it runs."""
    config = worker.get("/connectors/route/config")["body"]
    status, answer = worker.ask("PUT", "/connectors/route", config | {"engine": engine})
    assert status == 200, answer


def began(worker: Worker) -> int:
    return sum(each["event"] == "Spark task began" for each in worker.events)


def all_run(worker: Worker, topic: str) -> Callable[[], bool]:
    return lambda: {queue["state"] for queue in worker.queues(topic)} == {"RUNNING"}


async def test_live_to_spark_and_back_under_load(scene: SceneOf) -> None:
    """With a task killed, and the worker killed, on the way: every message once, in order."""
    async with scene(queues=4) as here:
        await here.produce(2000)
        async with here.producer(per_second=400) as load:
            worker = here.worker(*BY_SPARK)
            async with worker:
                await until(all_run(worker, here.topic), seconds=90, what="Spark copies")
                assert began(worker) == 2
                victim = tasks_of(worker)[0]
                os.kill(victim, signal.SIGKILL)
                await until(lambda: began(worker) == 3, seconds=30, what="another task begins")
                await until(all_run(worker, here.topic), seconds=30, what="all flow again")
                set_engine(worker, "live")
                await until(lambda: not tasks_of(worker), seconds=30, what="Spark's tasks end")
                await until(all_run(worker, here.topic), seconds=30)
                await worker.kill()
            worker = here.worker(*BY_SPARK)
            async with worker:
                await until(all_run(worker, here.topic), seconds=60)
                await load.finish()
                await worker.caught_up(here.topic, 1)
                assert worker.get("/connectors/route/readiness")
                assert await worker.drain() == 0
        await here.assert_clean(2000 + load.acknowledged)
