"""On YARN, whose nodes' Python knows nothing of us: a backfill whose driver is there too, and a route under load.

And archives on HDFS.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import pytest_asyncio

from replicator.spark.jobs.location import Location
from tests.spark.test_archive import Command
from tests.spark.test_archive_stores import out_and_in_again
from tests.spark.test_cluster import said, started
from tests.spark.waiting import ends, settled
from tests.support.hadoop import SPARKS_JARS, Hadoop, hadoop
from tests.support.scene import SceneOf
from tests.support.worker import until

#: As small as they work. The jars need not be uploaded, as they are on this machine.
SETTINGS = f"""
spark.yarn.jars local:{SPARKS_JARS}/*
spark.executor.instances 1
spark.executor.cores 2
spark.executor.memory 512m
spark.executor.memoryOverhead 256m
spark.yarn.am.memory 512m
spark.driver.memory 600m
spark.yarn.submit.waitAppCompletion true
spark.yarn.maxAppAttempts 1
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hadoop]:
    async with hadoop(tmp_path_factory.mktemp("hadoop") / "files") as running:
        yield running


@pytest.mark.timeout(900)
async def test_a_cluster_of_yarn(scene: SceneOf, cluster: Hadoop, tmp_path: Path) -> None:
    """Nothing lost, nothing twice, in cluster mode and in client mode; a container is killed under load."""
    conf = tmp_path / "conf"
    packing = await started("-m", "replicator", "spark-package", str(conf), environment=dict(os.environ))
    async with scene(queues=2) as here:
        await here.produce(4000)
        await settled(here.source, here.topic, 4000)
        await said(packing)
        with (conf / "spark-defaults.conf").open("a") as settings:
            settings.write(SETTINGS)
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        environment = {**cluster.environment, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": str(python)}
        both = ("--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic)
        more = ("--store-path", str(tmp_path / "store"), "--session-timeout", "3", "--output", "json")
        done = await in_the_cluster(cluster, environment, str(conf / "submit.py"), "backfill", *both, *more)
        assert done["copied"] == 4000
        await here.assert_clean(4000)

        await here.produce(2000, start=4000)
        await settled(here.source, here.topic, 6000)
        engine = ("--engine", "spark", "--spark-master", "yarn")
        async with here.worker(*engine, environment=environment) as worker:
            await worker.caught_up(here.topic, 1, seconds=240)
            async with here.producer(per_second=400) as load:

                async def flows() -> bool:
                    copied = sum(await ends(here.target, here.topic))
                    return copied > 6000 and copied + 200 > 6000 + load.acknowledged

                await until(flows, seconds=30, what="messages are copied as they come")
                (executor,) = cluster.executors()
                os.kill(executor, signal.SIGKILL)
                await until(lambda: {*cluster.executors()} - {executor}, seconds=90, what="another executor")
                await until(flows, seconds=60, what="they are copied again")
                await load.finish()
            await worker.caught_up(here.topic, 1, seconds=60)
            assert await worker.drain() == 0
        await here.assert_clean(6000 + load.acknowledged)


async def test_out_to_hdfs_and_in_again(
    command: Command, scene: SceneOf, cluster: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks are killed while they write: nothing lost, nothing twice."""
    async with scene(queues=2) as here:
        uri = f"{cluster.uri}/deep/archive"
        await out_and_in_again(command, here, uri, tmp_path / "store", monkeypatch)


async def test_a_file_of_hdfs_is_replaced_whole(cluster: Hadoop) -> None:
    """Also while it is read; errors are one line."""
    location = Location.of(f"{cluster.uri}/replaced")
    assert (location.names(), location.read("x")) == ([], None)
    location.replace("x", b"old" * 100_000)
    with location.open("x") as file:
        location.replace("x", b"new")
        assert file.read(3) == b"old"
    assert (location.read("x"), location.names(), location.sizes(["x", "y"])) == (b"new", ["x"], [3, None])
    with pytest.raises(OSError, match="not a directory") as refused:
        Location.of(f"{cluster.uri}/replaced/x").replace("y", b"")
    said = location.reason(refused.value)
    assert said.endswith("(is not a directory)"), said
    location.remove(["x", "y"])
    assert location.names() == []


async def in_the_cluster(cluster: Hadoop, environment: dict[str, str], *program: str) -> Any:
    """What a command has printed, whose driver ran on a node: its exit code is the outcome of the application."""
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    process = await asyncio.create_subprocess_exec(
        *(str(submit), "--master=yarn", "--deploy-mode", "cluster", *program),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, errors.decode()[-3000:] + cluster.logs()[-3000:]
    (found,) = re.findall(r"^\{\n.*?^\}$", cluster.logs(), re.MULTILINE | re.DOTALL)
    return json.loads(found)
