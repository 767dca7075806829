"""Sessions of users that try slow tasks twice at a time: refused where they begin, before anything is written."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from replicator.spark.engine.java import java_home
from tests.support.scene import SceneOf
from tests.support.traffic import topics_of

REFUSED = "spark.speculation = true: two attempts of one task would write to one queue: set it to false"

REGISTER = """
from pyspark.sql import SparkSession
from replicator.spark.source.datasource import RocketMQDataSource
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(RocketMQDataSource)
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
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    _, errors = await process.communicate()
    return process.returncode, errors.decode()


@pytest.mark.spark
async def test_the_data_source_is_not_registered(speculating: dict[str, str]) -> None:
    """In a session of the user's own."""
    code, errors = await run("-c", REGISTER, environment=speculating)
    assert code == 1
    assert errors.splitlines()[-1] == f"replicator.errors.ConfigError: {REFUSED}"


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
