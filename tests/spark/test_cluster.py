"""On a standalone Spark cluster whose Python knows nothing of us: what is shipped is all that it needs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.spark.stream_job import Job
from tests.spark.waiting import ends, settled
from tests.support.scene import SceneOf
from tests.support.standalone import standalone
from tests.support.worker import until

pytestmark = pytest.mark.brokers


async def replicator(*arguments: str, environment: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replicator", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


@pytest.mark.timeout(600)
async def test_an_executor_is_killed_in_mid_task(scene: SceneOf, tmp_path: Path) -> None:
    """Of a backfill: nothing lost, nothing twice, order kept; then a stream of the cluster copies what comes."""
    conf = tmp_path / "conf"
    packing = await replicator("spark-package", str(conf), environment=dict(os.environ))
    async with scene(queues=2) as here, standalone(tmp_path) as cluster:
        await here.produce(8000)
        await settled(here.source, here.topic, 8000)
        told, _ = await packing.communicate()
        assert f"SPARK_CONF_DIR={conf} PYSPARK_PYTHON=python3." in told.decode()
        with (conf / "spark-defaults.conf").open("a") as settings:
            settings.write("spark.executor.memory 600m\n")
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        given = ["--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic]
        given += ["--store-path", str(tmp_path / "store"), "--session-timeout", "3", "--master", cluster.url]
        environment = {**cluster.environment, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": str(python)}
        slowly = ("--rate-messages", "2000", "--batch-messages", "50")
        backfill = await replicator("backfill", *given, *slowly, "--output", "json", environment=environment)

        async def both_copy() -> bool:
            if backfill.returncode is not None:
                raise AssertionError((await backfill.communicate())[1].decode())
            found = await ends(here.target, here.topic)
            return len(found) == 2 and min(found) > 500

        await until(both_copy, seconds=120, what="both executors copy")
        assert max(await ends(here.target, here.topic)) < 4000
        first, _ = cluster.executors()
        os.kill(first, signal.SIGKILL)
        told, errors = await asyncio.wait_for(backfill.communicate(), 120)
        assert backfill.returncode == 0, errors.decode()[-3000:]
        outcome = json.loads(told)
        assert outcome["before"] > 0
        assert outcome["before"] + outcome["copied"] == 8000
        await here.assert_clean(8000)

        await here.produce(500, start=8000)
        job = Job(here, tmp_path, "--master", cluster.url, environment=environment)

        async def all_there() -> bool:
            return sum(await ends(here.target, here.topic)) == 8500

        async with job.running() as stream:
            await until(all_there, seconds=120, what="the stream has copied what came")
            stream.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(stream.wait(), 60) == 0, job.log
        await here.assert_clean(8500)
