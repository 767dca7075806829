"""What the data source writes where something goes wrong: refused in one line, killed in mid-write."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from replicator.spark.source import datasource
from tests.spark.test_datasource import reading, writing
from tests.spark.waiting import ends, settled
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, raw_topic
from tests.support.worker import until


async def test_a_topic_that_is_not_there(spark: Any, scene: SceneOf) -> None:
    """Named by the option, or by a row: nothing makes it silently."""
    async with scene() as here:
        rows = spark.createDataFrame([("a", "no-such-column")], "body STRING, topic STRING")
        for options, topic in (({"topic": "No-Such-Option"}, "No-Such-Option"), ({}, "no-such-column")):
            with pytest.raises(
                Exception, match=f"topic {topic} cannot be written: no broker has it: create it first"
            ) as told:
                writing(rows, here, **options)
            assert ("in writer" in str(told.value)) == bool(options)  # so it is refused before tasks begin


async def test_a_message_above_the_limit_of_the_broker(spark: Any, scene: SceneOf) -> None:
    """Is one clear error; what was acknowledged before it stays, and is not repeated by the other attempts."""
    async with scene() as here:
        await create_topic(here.target, here.topic, queues=1)
        broker = here.target.brokers[0].name
        sizes = [10] * 20 + [5 * 1024 * 1024] + [10] * 20
        rows = [
            (b"x" * size, {"__RPL_ORIGIN": "east", "__RPL_SOURCE": f"east/east-a/0/{i}/{i}"}, broker, 0)
            for i, size in enumerate(sizes)
        ]
        schema = "body BINARY, properties MAP<STRING,STRING>, brokerName STRING, queueId INT"
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        with pytest.raises(
            Exception, match=rf"{here.topic}/{broker}/0 refuses a batch of 1 with 52\d+ bytes"
        ) as told:
            writing(frame, here, topic=here.topic)
        assert "raise the broker's maxMessageSize, or leave such rows out" in str(told.value)
        await settled(here.target, here.topic, 20)
        ((_, stored),) = (await raw_topic(here.target, here.topic)).items()
        assert [message.body_length for message in stored] == [10] * 20
        writing(frame.where("length(body) = 10"), here, topic=here.topic)
        await settled(here.target, here.topic, 40)
        assert await ends(here.target, here.topic) == [40]


async def test_processes_are_killed_in_mid_write(spark: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Of rows with provenance: Spark tries their tasks again, nothing is lost, nothing comes twice."""
    from pyspark.sql.functions import lit

    class Slow(datasource.RocketMQDataSource):
        """The first attempts of its tasks tell their process, and wait a little behind each batch of rows."""

        @classmethod
        def name(cls) -> str:
            return "slow"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            whole: Any = super().writer(schema, overwrite)
            write = whole.write

            def slowly(batches: Iterator[Any]) -> Any:
                from pyspark import TaskContext

                context: Any = TaskContext.get()

                def some() -> Iterator[Any]:
                    for batch in batches:
                        yield batch
                        if context.attemptNumber() == 0:
                            (tmp_path / str(os.getpid())).touch()
                            time.sleep(0.5)

                return write(some())

            whole.write = slowly
            return whole

    def processes() -> list[int]:
        return [int(file.name) for file in tmp_path.iterdir()]

    spark.dataSource.register(Slow)
    async with scene(queues=2) as here:
        await here.produce(8000)
        await settled(here.source, here.topic, 8000)
        await create_topic(here.target, here.topic, queues=2)
        frame = reading(spark, here, provenance="true").withColumn("brokerName", lit(here.target.brokers[0].name))
        writer = frame.write.format("slow").mode("append").option("namesrv", here.target.namesrv)

        async def both_write() -> bool:
            return min(await ends(here.target, here.topic)) > 1000

        async def kill() -> list[int]:
            await until(both_write, what="both tasks write")
            for process in processes():
                os.kill(process, signal.SIGKILL)
            return await ends(here.target, here.topic)

        with ThreadPoolExecutor() as aside:  # sessions are found in the thread that began them
            killing = aside.submit(asyncio.run, kill())
            writer.save()
        assert max(killing.result()) < 4000
        assert len(processes()) == 2
        await settled(here.target, here.topic, 8000)
        await here.assert_clean(8000)
