"""The data source as a stream on real brokers: exact over restarts, and what it does where messages are gone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError, ReplicatorError
from replicator.sandbox import Cluster
from replicator.spark.source import datasource, latest_offsets
from replicator.spark.source.options import ReadOptions
from replicator.spark.source.stream import StreamReader
from tests.spark.waiting import settled
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import create_topic, produce, raw_topic, remove_topic


def streaming(spark: Any, cluster: Cluster, **options: object) -> Any:
    reader = spark.readStream.format("rocketmq").option("nameServer", cluster.namesrv)
    for name, value in {"startingOffsets": "earliest", **options}.items():
        reader = reader.option(name, value)
    return reader.load()


def ended(writer: Any, checkpoint: Path) -> Any:
    """The query, once it has done what there was."""
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return query


async def test_a_stream_goes_on_exactly_where_it_was(spark: Any, scene: SceneOf, tmp_path: Path) -> None:
    """In micro-batches of a limit, over restarts, with queues and topics that turn up meanwhile."""
    sizes: list[int] = []
    found: list[tuple[str, int, int]] = []

    def take(frame: Any, _: int) -> None:
        rows = frame.select("topic", "queueId", "queueOffset").collect()
        sizes.append(len(rows))
        found.extend(tuple(row) for row in rows)

    async with scene() as here:
        await here.produce(2000)
        await settled(here.source, here.topic, 2000)
        frame = streaming(spark, here.source, topicsPattern=f"{here.topic}.*", maxOffsetsPerTrigger=600)
        writer = frame.writeStream.foreachBatch(take)
        query = ended(writer, tmp_path)
        assert sizes == [600, 600, 600, 200]
        broker = here.source.brokers[0].name
        assert json.loads(query.lastProgress.sources[0].endOffset) == {
            here.topic: {broker: {str(i): 500 for i in range(4)}}
        }
        await create_topic(here.source, here.topic, queues=6)
        await here.produce(300, start=2000)
        await create_topic(here.source, f"{here.topic}-more", queues=1)
        await produce(here.source, f"{here.topic}-more", 200)
        await settled(here.source, here.topic, 2300)
        await settled(here.source, f"{here.topic}-more", 200)
        ended(writer, tmp_path)
        assert sizes[4:] == [500]
        ended(writer, tmp_path)
        assert sum(sizes) == 2500
        assert sorted(found) == [
            (topic, queue, m.queue_offset)
            for topic in (here.topic, f"{here.topic}-more")
            for (_, queue), messages in sorted((await raw_topic(here.source, topic)).items())
            for m in messages
        ]


class Failing(datasource.RocketMQDataSource):
    """Its streams fail in mid-write at the first attempt of each task."""

    @classmethod
    def name(cls) -> str:
        return "failing"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        whole: Any = super().streamWriter(schema, overwrite)
        write = whole.write

        def first_fails(batches: Iterator[Any]) -> Any:
            from pyspark import TaskContext

            context: Any = TaskContext.get()

            def some() -> Iterator[Any]:
                for number, batch in enumerate(batches):
                    if number == 1 and context.attemptNumber() == 0:
                        raise OSError("killed by the test")
                    yield batch

            return write(some())

        whole.write = first_fails
        return whole


async def test_copies_are_written_once(spark: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Over tasks that fail in mid-write, and a query that was killed between a write and its commit."""
    from pyspark.sql.functions import lit

    spark.dataSource.register(Failing)
    async with scene(queues=2) as here:
        await here.produce(3000)
        await settled(here.source, here.topic, 3000)
        await create_topic(here.target, here.topic, queues=2)
        frame = streaming(spark, here.source, topic=here.topic, provenance="true", maxOffsetsPerTrigger=2400)
        frame = frame.withColumn("brokerName", lit(here.target.brokers[0].name))

        def writing(name: str) -> Any:
            return frame.writeStream.format(name).option("nameServer", here.target.namesrv)

        ended(writing("failing"), tmp_path)
        await settled(here.target, here.topic, 3000)
        await here.assert_clean(3000)
        forget_commit(tmp_path)
        await here.produce(400, start=3000)
        await settled(here.source, here.topic, 3400)
        query = ended(writing("rocketmq"), tmp_path)
        assert [progress.numInputRows for progress in query.recentProgress][:2] == [600, 400]
        await settled(here.target, here.topic, 3400)
        await here.assert_clean(3400)


def forget_commit(checkpoint: Path) -> None:
    """As if the query had been killed before it noted that its last micro-batch was written."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink()


def reader_of(scene: Scene, **options: str) -> StreamReader:
    given = {"nameServer": scene.source.namesrv, "topic": scene.topic, "startingOffsets": "earliest"} | options
    return StreamReader(ReadOptions.of(given, streaming=True))


async def latest(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return await asyncio.to_thread(lambda: reader.latestOffset(start, reader.getDefaultReadLimit()))


async def test_a_recreated_topic(scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, or read from its first message, as `failOnDataLoss` says."""
    monkeypatch.setattr(latest_offsets, "_ATTEMPTS", 3)
    async with scene(queues=1) as here:
        await here.produce(50)
        await settled(here.source, here.topic, 50)
        broker = here.source.brokers[0].name
        strict, lenient = reader_of(here), reader_of(here, failOnDataLoss="false")
        try:
            start = await asyncio.to_thread(strict.initialOffset)
            assert start == {here.topic: {broker: {"0": 0}}}
            end = await latest(strict, start)
            assert end == {here.topic: {broker: {"0": 50}}}
            await remove_topic(here.source, here.topic)
            with pytest.raises(
                ReplicatorError, match=r"0 is gone, and was read to offset 50.*failOnDataLoss=false"
            ):
                await latest(strict, end)
            assert await latest(lenient, end) == {}
            await create_topic(here.source, here.topic, queues=1)
            await here.produce(20)
            await settled(here.source, here.topic, 20)
            with pytest.raises(ReplicatorError, match="0 ends at offset 20, and was read to offset 50"):
                await latest(strict, end)
            recreated = await latest(lenient, end)
            assert recreated == {here.topic: {broker: {"0": 20}}}
            (part,) = await asyncio.to_thread(lenient.partitions, end, recreated)
            (rows,) = await asyncio.to_thread(lambda: list(lenient.read(part)))
            assert rows.column("queueOffset").to_pylist() == list(range(20))
        finally:
            await asyncio.to_thread(strict.stop)
            await asyncio.to_thread(lenient.stop)


async def test_a_stream_begins_with_what_comes(scene: SceneOf) -> None:
    """Where nothing says otherwise."""
    async with scene(queues=1) as here:
        await here.produce(50)
        await settled(here.source, here.topic, 50)
        broker = here.source.brokers[0].name
        options = {"nameServer": here.source.namesrv, "topic": here.topic}
        reader = StreamReader(ReadOptions.of(options, streaming=True))
        try:
            assert await asyncio.to_thread(reader.initialOffset) == {here.topic: {broker: {"0": 50}}}
        finally:
            await asyncio.to_thread(reader.stop)


async def test_too_few_messages_wait(scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """For more, or until the delay is over; where all that exists is to be read, nothing is waited for."""
    async with scene(queues=2) as here:
        limits = {"minOffsetsPerTrigger": "50", "maxOffsetsPerTrigger": "80", "maxTriggerDelay": "1h"}
        options = ReadOptions.of({"nameServer": here.source.namesrv, "topic": here.topic} | limits, streaming=True)
        reader, whole, clock = StreamReader(options), StreamReader(options), [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])

        def after(start: dict[str, Any], by: StreamReader = reader) -> tuple[dict[str, Any], int]:
            end = by.latestOffset(start, by.getDefaultReadLimit())
            numbers = [number for brokers in end.values() for each in brokers.values() for number in each.values()]
            return end, sum(numbers)

        async def stored(count: int, *, start: int) -> None:
            await here.produce(count, start=start)
            await settled(here.source, here.topic, start + count)

        try:
            begin = await asyncio.to_thread(reader.initialOffset)
            await stored(10, start=0)
            first, count = await asyncio.to_thread(after, begin)
            assert count == 10  # the first one does not wait
            await stored(40, start=10)
            assert await asyncio.to_thread(after, first) == (first, 10)
            await stored(10, start=50)
            assert (await asyncio.to_thread(after, first))[1] == 60
            clock[0] = 3599.0
            second, _ = await asyncio.to_thread(after, first)
            await stored(1, start=60)
            assert await asyncio.to_thread(after, second) == (second, 60)
            clock[0] = 3599.0 + 3600.0
            assert (await asyncio.to_thread(after, second))[1] == 61
            await asyncio.to_thread(whole.prepareForTriggerAvailableNow)
            assert (await asyncio.to_thread(after, second, whole))[1] == 61
        finally:
            for each in (reader, whole):
                await asyncio.to_thread(each.stop)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxTriggerDelay": "5m"}, "no effect without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "give a number and one of ms, s, m"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "give no more than that"),
        ({"endingOffsets": "latest"}, "endingOffsets is not an option of the data source rocketmq"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number, 1 or more"),
        ({"startingOffsets": "latest", "startingTimestamp": "7"}, "both given"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, str], message: str) -> None:
    """One line each."""
    with pytest.raises(ConfigError, match=message):
        ReadOptions.of({"nameServer": "b:1", "topic": "a"} | options, streaming=True)


def test_a_batch_has_no_trigger() -> None:
    """What would do nothing is refused."""
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger is not an option"):
        ReadOptions.of({"nameServer": "b:1", "topic": "a", "maxOffsetsPerTrigger": "5"})
