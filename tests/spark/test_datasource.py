"""The data source on real brokers: what is read, what is written, and what is refused in one line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.protocol import properties
from replicator.spark.source import datasource
from replicator.spark.source.options import ReadOptions, WriteOptions
from tests.spark.waiting import settled
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, raw_topic, send


def reading(spark: Any, scene: Scene, **options: object) -> Any:
    reader = spark.read.format("rocketmq").option("nameServer", scene.source.namesrv)
    for name, value in {"topic": scene.topic, **options}.items():
        reader = reader if value is None else reader.option(name, value)
    return reader.load()


def writing(frame: Any, scene: Scene, **options: object) -> None:
    writer = frame.write.format("rocketmq").mode("append").option("namesrv", scene.target.namesrv)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


async def test_all_of_a_topic_is_read(spark: Any, scene: SceneOf) -> None:
    """Every message once, in order within its queue, with all that it has; a queue may come in parts."""
    async with scene() as here:
        await here.produce(3000)
        broker = here.source.brokers[0].name
        zipped, packed = b"x" * 9000, zlib.compress(b"x" * 9000)
        async with connected(here.source) as client:
            told = {"UNIQ_KEY": "Z1", "KEYS": "a b", "TAGS": "ü", "own": "1"}
            await send(client, broker, here.topic, 0, [(packed, told)], sys_flag=0x301, flag=-5, born=1234)
        await settled(here.source, here.topic, 3001)
        frame = reading(spark, here, minPartitions=8)
        assert frame.rdd.getNumPartitions() >= 8
        rows = frame.collect()
        stored = await raw_topic(here.source, here.topic)
        assert {
            (r.brokerName, r.queueId, r.queueOffset): (bytes(r.body), r.properties) for r in rows if r.msgId != "Z1"
        } == {
            (*place, m.queue_offset): (m.body[4:], properties.decode(m.properties))
            for place, messages in stored.items()
            for m in messages
            if m.sys_flag & 1 == 0
        }
        (last,) = [row for row in rows if row.msgId == "Z1"]
        assert (bytes(last.body), last.keys, last.tags, last.flag) == (zipped, "a b", "ü", -5)
        assert last.bornTimestamp.astimezone(UTC) == datetime.fromtimestamp(1.234, UTC)
        assert (last.topic, last.brokerName, last.queueId, last.queueOffset) == (here.topic, broker, 0, 750)
        for queue_id in range(4):
            offsets = [row.queueOffset for row in rows if row.queueId == queue_id]
            assert offsets == sorted(offsets)


async def test_a_part_of_a_topic_is_read(spark: Any, scene: SceneOf) -> None:
    """By offsets, by time; an empty topic and an empty part too."""
    async with scene() as here:
        assert reading(spark, here).count() == 0
        await here.produce(400)
        await settled(here.source, here.topic, 400)
        broker = here.source.brokers[0].name
        some = reading(
            spark,
            here,
            startingOffsets=json.dumps({here.topic: {broker: {"0": 90, "1": 100}}}),
            endingOffsets=json.dumps({here.topic: {broker: {"0": 95, "2": 0, "3": 7}}}),
        )
        found = sorted((row.queueId, row.queueOffset) for row in some.collect())
        assert found == [(0, i) for i in range(90, 95)] + [(3, i) for i in range(7)]
        stamps = sorted(m.store_timestamp for ms in (await raw_topic(here.source, here.topic)).values() for m in ms)
        middle = stamps[200]
        expected = [sum(s < middle for s in stamps), sum(s >= middle for s in stamps), 0]
        assert [
            reading(spark, here, endingTimestamp=middle).count(),
            reading(spark, here, startingTimestamp=middle).count(),
            reading(spark, here, startingTimestamp=stamps[-1] + 60_000).count(),
        ] == expected
        with pytest.raises(Exception, match="has the offsets 0 to 100, 0 to 200 were requested"):
            reading(spark, here, endingOffsets=json.dumps({here.topic: {broker: {"0": 200}}})).count()


async def test_filters_go_down_to_the_brokers(spark: Any, scene: SceneOf) -> None:
    """Where the session lets them: the same rows, of fewer parts of queues; elsewhere nothing fails."""
    from pyspark.sql.functions import col, lit, timestamp_millis

    async with scene() as here:
        for half in (0, 200):  # so that not all are stored in one millisecond
            await here.produce(200, start=half)
            await settled(here.source, here.topic, half + 200)
        stamps = sorted(m.store_timestamp for ms in (await raw_topic(here.source, here.topic)).values() for m in ms)
        broker, offset, time = here.source.brokers[0].name, col("queueOffset"), col("storeTimestamp")

        def at(number: int) -> Any:
            return timestamp_millis(lit(stamps[number]))

        chosen = {
            "a queue": (col("queueId") == 2) & (col("tags") != "tag0"),
            "some queues": col("queueId").isin(0, 3) & col("brokerName").isin(broker, "other"),
            "no queue": (col("topic") == here.topic) & (col("brokerName") == "other"),
            "offsets": (offset >= 10) & (offset < 25) & (offset != 12),
            "one offset": (offset == 99) & col("queueId").isin(1, 2),
            "times": (time > at(199)) & (time <= at(399)),
            "no times": time < at(0),
            "what no broker knows": (col("flag") == 0) | (offset == 5),
        }

        def rows(condition: Any) -> tuple[list[tuple[int, int]], int]:
            frame = reading(spark, here).where(condition)
            return sorted((row.queueId, row.queueOffset) for row in frame.collect()), frame.rdd.getNumPartitions()

        there = {name: rows(condition) for name, condition in chosen.items()}
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        try:
            found = {name: rows(condition) for name, condition in chosen.items()}
            whole = reading(spark, here).count()
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        assert whole == 400
        assert {name: kept for name, (kept, _) in found.items()} == {
            name: kept for name, (kept, _) in there.items()
        }
        assert {name: parts for name, (_, parts) in there.items()} == dict.fromkeys(chosen, 4)
        assert {name: parts for name, (_, parts) in found.items() if name != "times"} == {
            "a queue": 1,
            "some queues": 2,
            "no queue": 1,  # as Spark makes one of none
            "offsets": 4,
            "one offset": 2,
            "no times": 1,
            "what no broker knows": 4,
        }
        assert len(there["offsets"][0]) == 56
        assert 0 < len(there["times"][0]) < 400


async def test_rows_become_messages(spark: Any, scene: SceneOf) -> None:
    """To the queue that is named, to that of the sharding key, or to all in turn."""
    async with scene() as here:
        await create_topic(here.target, here.topic)
        broker = here.target.brokers[0].name
        schema = (
            "body STRING, tags STRING, keys STRING, properties MAP<STRING,STRING>, brokerName STRING, queueId INT"
        )
        rows: list[tuple[Any, ...]] = [(f"n{i}", "t", f"k{i}", {"own": "ö"}, broker, 3) for i in range(1200)]
        rows += [(f"s{i}", None, None, {"__SHARDINGKEY": f"{i % 7}"}, None, None) for i in range(1200)]
        rows += [(f"r{i}", None, None, None, None, None) for i in range(1200)]
        writing(spark.createDataFrame(rows, schema).coalesce(1), here, topic=here.topic)
        await settled(here.target, here.topic, 3600)
        stored = await raw_topic(here.target, here.topic)
        found = [
            (place[1], m.body[4:].decode(), properties.decode(m.properties))
            for place, ms in stored.items()
            for m in ms
        ]
        named = [
            (queue, body, told["own"], told["KEYS"], told["TAGS"]) for queue, body, told in found if body[0] == "n"
        ]
        assert named == [(3, f"n{i}", "ö", f"k{i}", "t") for i in range(1200)]
        sharded: dict[str, list[tuple[int, int]]] = {}
        for queue, body, told in found:
            if body[0] == "s":
                sharded.setdefault(told["__SHARDINGKEY"], []).append((queue, int(body[1:])))
        for key, places in sharded.items():
            assert len({queue for queue, _ in places}) == 1
            assert [number for _, number in places] == list(range(int(key), 1200, 7))
        turned = [queue for queue, body, _ in found if body[0] == "r"]
        assert {turned.count(queue) for queue in range(4)} == {300}
        assert len({told["UNIQ_KEY"] for _, _, told in found}) == 3600


async def test_copies_are_written_once_over_attempts_that_fail(spark: Any, scene: SceneOf) -> None:
    """Rows with provenance are looked for in the target, by a task that is tried again and by another job."""

    class Failing(datasource.RocketMQDataSource):
        """Its writers fail in the middle of their first attempt."""

        @classmethod
        def name(cls) -> str:
            return "failing"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            whole: Any = super().writer(schema, overwrite)
            write = whole.write

            def first_fails(batches: Iterator[Any]) -> Any:
                from pyspark import TaskContext

                context: Any = TaskContext.get()

                def some() -> Iterator[Any]:
                    for number, batch in enumerate(batches):
                        if number == 2 and context.attemptNumber() == 0:
                            raise OSError("killed by the test")
                        yield batch

                return write(some())

            whole.write = first_fails
            return whole

    spark.dataSource.register(Failing)
    async with scene() as here:
        await here.produce(6000)
        await settled(here.source, here.topic, 6000)
        await create_topic(here.target, here.topic)
        broker = here.target.brokers[0].name
        from pyspark.sql.functions import lit

        frame = reading(spark, here, provenance="true", clusterId="east").withColumn("brokerName", lit(broker))
        frame.write.format("failing").mode("append").option("namesrv", here.target.namesrv).save()
        await settled(here.target, here.topic, 6000)
        await here.assert_clean(6000)
        writing(frame, here)
        await here.assert_clean(6000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing says what is read: give one of topic, topicsPattern, assign"),
        ({"topic": "a", "topicsPattern": "b"}, "topic and topicsPattern are both given"),
        ({"assign": '{"a":[0]}'}, r'give JSON like {"orders":{"broker-a":\[0,1\]}}'),
        ({"assign": '{"a":{"b":[]}}'}, "nothing would be read"),
        ({"topic": "a", "columns": "body, offset"}, "columns = 'body, offset': give some of topic, brokerName"),
        ({"topic": "a", "startingOffsetsByTimestamp": '{"a":{"b":{"0":-2}}}'}, "in ms since the epoch"),
        ({"topic": "a", "endingOffsetsByTimestamp": "{}", "endingTimestamp": "7"}, "both given"),
        ({"topic": "a", "kafka.bootstrap.servers": "b:9092"}, "kafka.bootstrap.servers is not .*: give nameServer"),
        ({"topic": "a", "kafka.group.id": "g"}, "has no consumer group"),
        (
            {"topic": "a", "groupidprefix": "g"},
            "groupIdPrefix is not .*: leave it out: a read has no",
        ),
        ({"topic": "a", "includeheaders": "true"}, "includeHeaders is not .* the column properties"),
        ({"topic": "a", "kafka.security.protocol": "SSL"}, "it is for Kafka's client; here are accessKey"),
        ({"startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"topics": "a", "startingOffsets": "latest"}, "nothing would be read"),
        ({"topic": "a", "startingOffsets": '{"a":{"0":1}}'}, "queue|broker-a"),
        ({"topic": "a", "startingOffsets": "earliest", "startingTimestamp": "7"}, "both given"),
        ({"topic": "a", "minPartitions": "0"}, "whole number, 1 or more"),
        ({"topic": "a", "failOnDataLoss": "maybe"}, "true or false"),
        ({"topic": "a", "provenance": "true", "minPartitions": "9"}, "remove minPartitions"),
        ({"topic": "a", "nameServer": "nowhere"}, "not host:port"),
        ({"topic": "a", "accessKey": "c"}, "go together"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, str], message: str) -> None:
    """One line each."""
    with pytest.raises(ConfigError, match=message) as caught:
        ReadOptions.of({"nameServer": "b:1"} | options)
    assert "\n" not in str(caught.value)


def test_a_writer_has_no_options_of_readers() -> None:
    """Nothing that would do nothing."""
    with pytest.raises(ConfigError, match="nameServer is missing"):
        WriteOptions.of({})
    with pytest.raises(ConfigError, match="minPartitions is not an option"):
        WriteOptions.of({"nameServer": "a:1", "minPartitions": "3"})


async def test_what_cannot_be_written(spark: Any, scene: SceneOf) -> None:
    """Overwriting, unknown columns, no body, no topic: before tasks begin."""
    async with scene() as here:
        rows = spark.createDataFrame([("a", 1)], "body STRING, other INT")
        with pytest.raises(Exception, match="column other cannot be written") as told:
            writing(rows, here, topic=here.topic)
        assert "in writer" in str(told.value)
        for kafkas, hint in (("value", "name it body"), ("key", "name it keys"), ("headers", "named properties")):
            with pytest.raises(Exception, match=f"column {kafkas} cannot be written: .*{hint}"):
                writing(rows.select(rows.body.alias(kafkas)), here, topic=here.topic)
        with pytest.raises(Exception, match="brokerName and queueId go together: give both columns or neither"):
            writing(rows.select("body", rows.body.alias("brokerName")), here, topic=here.topic)
        with pytest.raises(Exception, match="topic"):
            writing(rows.drop("other"), here)
        with pytest.raises(Exception, match="there is no column body"):
            writing(rows.select(rows.body.alias("keys")), here, topic=here.topic)
        writer = rows.drop("other").write.format("rocketmq").mode("overwrite")
        with pytest.raises(Exception, match="cannot be deleted"):
            writer.option("namesrv", here.target.namesrv).option("topic", here.topic).save()
