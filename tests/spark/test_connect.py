"""The data source over Spark Connect: a real server, whose client has no Java and no SparkContext."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from replicator.errors import ConfigError
from replicator.spark.engine.java import java_home
from replicator.spark.engine.session import session
from tests.spark.waiting import settled
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, raw_topic

CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from replicator.spark.engine.session import refuse_speculation

source, target, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
refuse_speculation(spark)

def of(end, address, **options):
    end = end.format("rocketmq").option("nameServer", address)
    for name, value in options.items():
        end = end.option(name, value)
    return end

rows = of(spark.read, source, topic=topic).load()
told = {"session": type(spark).__module__, "read": rows.count()}
told["none"] = of(spark.read, source, topicsPattern="no-such-.*").load().count()
told["columns"] = of(spark.read, source, topic=topic, columns="keys").load().columns
of(rows.select("body", "keys").write, target, topic=topic).mode("append").save()
stream = of(spark.readStream, source, topic=topic, startingOffsets="earliest").load().select("body", "keys")
sink = of(stream.writeStream, target, topic=topic, checkpointLocation=checkpoint)
query = sink.trigger(availableNow=True).start()
told["ended"] = query.awaitTermination(120)
spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
told["pushed"] = of(spark.read, source, topic=topic).load().where("queueId = 0").count()
try:
    of(spark.read, source, topic="No-Such").load().count()
except Exception as error:
    told["error"] = str(error)
print(json.dumps(told))
spark.stop()
"""


async def test_topics_are_read_and_written(scene: SceneOf, tmp_path: Path) -> None:
    """As tables and as streams, with nothing registered; what is wrong is said there, too."""
    async with scene(queues=2) as here:
        await here.produce(100)
        await settled(here.source, here.topic, 100)
        await create_topic(here.target, here.topic, queues=2)
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        if (home := java_home()) is not None:
            environment["JAVA_HOME"] = str(home)
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENT),
            *(here.source.namesrv, here.target.namesrv, here.topic, str(tmp_path / "checkpoint")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=tmp_path,
        )
        out, errors = (each.decode() for each in await client.communicate())
        assert client.returncode == 0, errors[-3000:]
        told = json.loads(out.splitlines()[-1])
        assert "topic = 'No-Such': no broker has it: check its name" in told.pop("error")
        assert told == {
            "session": "pyspark.sql.connect.session",
            "read": 100,
            "none": 0,
            "columns": ["keys"],
            "ended": True,
            "pushed": 50,
        }
        assert "no topic matches topicsPattern: nothing is read" in out + errors
        await settled(here.target, here.topic, 200)
        stored = (await raw_topic(here.target, here.topic)).values()
        assert len({message.body for messages in stored for message in messages}) == 100


@pytest.mark.parametrize("given", ["sc://spark:15002", None])
def test_jobs_need_a_master(given: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect has no tasks of our own: it is refused by name, whether a setting or the environment says it."""
    if given is None:
        monkeypatch.setenv("SPARK_REMOTE", "sc://spark:15002")
    with pytest.raises(ConfigError, match=r"sc://spark:15002': Spark Connect cannot run"):
        session(master=given).__enter__()
