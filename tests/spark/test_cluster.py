"""On a standalone Spark cluster whose Python knows nothing of us: what is shipped is all that it needs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.spark.waiting import ends, settled
from tests.support.scene import Scene, SceneOf
from tests.support.standalone import Standalone, standalone
from tests.support.traffic import create_topic, judge, raw_topic
from tests.support.worker import until

#: Reads a topic at the source and writes its rows to a topic of the target, each from queue to queue.
ROWS = """
import sys
from pyspark.sql.functions import lit
from replicator.spark.engine.session import session

master, source, target, topic, other, broker = sys.argv[1:]
with session(master=master) as spark:
    rows = spark.read.format("rocketmq").option("nameServer", source).option("topic", topic).load()
    print("bytes", rows.selectExpr("sum(length(body))").head()[0])
    writer = rows.withColumn("brokerName", lit(broker)).write.format("rocketmq").mode("append")
    writer.option("nameServer", target).option("topic", other).save()
"""


async def started(*arguments: str, environment: dict[str, str]) -> asyncio.subprocess.Process:
    """Python, with what it says to be read."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


async def said(process: asyncio.subprocess.Process) -> str:
    """What it has said, once it has ended well."""
    told, errors = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode == 0, errors.decode()[-3000:]
    return told.decode()


async def an_executor_killed(
    here: Scene, cluster: Standalone, ended: Callable[[], str | None], *, before: int
) -> None:
    """kill -9 of one of two that both copy: each queue has more than `before` copies, and lacks half of them still.

    Args:
        ended: what a job that has ended already has said.
    """

    async def both_copy() -> bool:
        if (told := ended()) is not None:
            raise AssertionError(told)
        found = await ends(here.target, here.topic)
        return len(found) == 2 and min(found) > before + 500

    await until(both_copy, seconds=120, what="both executors copy")
    first, _ = cluster.executors()
    assert max(await ends(here.target, here.topic)) < before + 4000
    os.kill(first, signal.SIGKILL)


@pytest.mark.timeout(900)
async def test_executors_are_killed_in_mid_task(scene: SceneOf, tmp_path: Path) -> None:
    """Of a backfill, and of a route whose engine is Spark: nothing lost, nothing twice, order kept.

    Between them everything else that runs in executors: `verify`, `export`, `import`, rows read and written.
    """
    conf = tmp_path / "conf"
    packing = await started("-m", "replicator", "spark-package", str(conf), environment=dict(os.environ))
    async with scene(queues=2) as here, standalone(tmp_path) as cluster:
        await here.produce(8000)
        await settled(here.source, here.topic, 8000)
        assert f"SPARK_CONF_DIR={conf} PYSPARK_PYTHON=python3." in await said(packing)
        with (conf / "spark-defaults.conf").open("a") as settings:
            settings.write("spark.executor.memory 600m\n")
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        environment = {**cluster.environment, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": str(python)}

        async def replicator(command: str, *flags: str) -> asyncio.subprocess.Process:
            more = ("--spark-master", cluster.url, "--output", "json")
            return await started("-m", "replicator", command, *flags, *more, environment=environment)

        async def outcome(command: str, *flags: str) -> Any:
            return json.loads(await said(await replicator(command, *flags)))

        source, target = ("--source", here.source.namesrv), ("--target", here.target.namesrv)
        both = (*source, *target, "--topics", here.topic)
        store = ("--store-path", str(tmp_path / "store"))
        slowly = ("--rate-messages", "2000", "--batch-messages", "50")
        backfill = await replicator("backfill", *both, *store, "--session-timeout", "3", *slowly)
        await an_executor_killed(
            here, cluster, lambda: None if backfill.returncode is None else "the backfill has ended", before=0
        )
        done = json.loads(await said(backfill))
        assert done["before"] > 0
        assert done["before"] + done["copied"] == 8000
        await here.assert_clean(8000)

        found = await outcome("verify", *both, "--complete")
        assert (found["clean"], sum(queue["copies"] for queue in found["queues"])) == (True, 8000)
        archive, again = str(tmp_path / "archive"), f"{here.topic}-again"
        assert (await outcome("export", archive, *source, "--topics", here.topic))["messages"] == 8000
        assert (await outcome("import", archive, *target, *store, "--rename", "{topic}-again"))["copied"] == 8000
        verdict = await judge(here.source, here.target, here.topic, target_topic=again)
        assert (verdict.clean, verdict.copies) == (True, 8000), verdict.report()
        await rows_are_read_and_written(here, partial(started, environment=environment), cluster)

        await here.produce(8000, start=8000)
        await settled(here.source, here.topic, 16_000)
        with (conf / "spark-defaults.conf").open("a") as settings:  # executors come and go, and two are there
            settings.write("spark.dynamicAllocation.enabled true\nspark.dynamicAllocation.minExecutors 2\n")
            settings.write("spark.dynamicAllocation.shuffleTracking.enabled true\n")
        engine = ("--engine", "spark", "--spark-master", cluster.url)
        async with here.worker(*engine, *slowly, environment=environment) as worker:
            await an_executor_killed(here, cluster, lambda: None, before=4000)
            await worker.set_rates()
            await worker.caught_up(here.topic, 1, seconds=120)
            assert await worker.drain() == 0
        await here.assert_clean(16_000)


async def rows_are_read_and_written(here: Scene, start: Callable[..., Any], cluster: Standalone) -> None:
    """By the data source: what is read and what is written is what is stored, queue by queue."""
    other = f"{here.topic}-rows"
    await create_topic(here.target, other, queues=2)
    places = (here.source.namesrv, here.target.namesrv, here.topic, other, here.target.brokers[0].name)
    told = await said(await start("-c", ROWS, cluster.url, *places))
    assert told.split() == ["bytes", "800000"]
    await settled(here.target, other, 8000)
    stored, written = await raw_topic(here.source, here.topic), await raw_topic(here.target, other)
    assert [[m.body for m in messages] for _, messages in sorted(written.items())] == [
        [m.body for m in messages] for _, messages in sorted(stored.items())
    ]
