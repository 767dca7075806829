"""Sessions of users that try slow tasks twice at a time: refused before anything is written."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from replicator.spark.engine.java import java_home
from tests.spark.waiting import settled
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, raw_topic, topics_of

REFUSED = "spark.speculation = true: two attempts of one task would write to one queue: set it to false"

#: In a session of a user's own: a read goes on, a write does not.
ROWS = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
source, target, topic = sys.argv[1:]
rows = spark.read.format("rocketmq").option("nameServer", source).option("topic", topic).load()
print(rows.count())
rows.write.format("rocketmq").option("nameServer", target).option("topic", topic).mode("append").save()
"""


@pytest.fixture
def speculating(tmp_path: Path) -> dict[str, str]:
    """An environment with Spark's settings."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.speculation true\n")
    environment = {**os.environ, "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"}
    if (home := java_home()) is not None:
        environment["JAVA_HOME"] = str(home)
    return environment


async def run(*arguments: str, environment: dict[str, str]) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    told, errors = await process.communicate()
    return process.returncode, told.decode() + errors.decode()


@pytest.mark.spark
async def test_the_data_source_does_not_write(scene: SceneOf, speculating: dict[str, str]) -> None:
    """In a session of the user's own; it reads, since Spark takes the rows of one attempt."""
    async with scene(queues=1) as here:
        await here.produce(10)
        await settled(here.source, here.topic, 10)
        await create_topic(here.target, here.topic, queues=1)
        given = (here.source.namesrv, here.target.namesrv, here.topic)
        code, told = await run("-c", ROWS, *given, environment={**speculating, "PYSPARK_PYTHON": sys.executable})
        assert code == 1, told
        assert told.splitlines()[0] == "10"
        assert f"replicator.errors.ConfigError: {REFUSED}" in told
        assert not any((await raw_topic(here.target, here.topic)).values())


async def test_a_backfill_does_not_begin(scene: SceneOf, speculating: dict[str, str], tmp_path: Path) -> None:
    """Nothing is made at the target."""
    async with scene() as here:
        given = ("--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic)
        store = ("--store-path", str(tmp_path / "store"), "--session-timeout", "3")
        code, errors = await run("-m", "replicator", "backfill", *given, *store, environment=speculating)
        assert code == 78, errors
        assert REFUSED in errors
        assert "Traceback" not in errors
        assert all(here.topic not in topics for topics in (await topics_of(here.target)).values())
