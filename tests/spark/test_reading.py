"""What the data source reads on real brokers: bodies, columns as stored, which topics, from and to where."""

from __future__ import annotations

import asyncio
import json
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import lz4.frame
import pytest
from backports import zstd

from replicator.errors import ConfigError
from replicator.spark.source import offsets
from replicator.spark.source.offsets import freeze
from replicator.spark.source.options import ReadOptions
from replicator.spark.source.stream import StreamReader
from tests.spark.test_datasource import reading, writing
from tests.spark.waiting import settled
from tests.support.javatool import Order, java_produce, java_read_topic
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, produce, raw_topic, send, topics_of

BODY = b"compress me " * 100
CODECS = ("zlib", "lz4", "zstd")


async def test_bodies_are_as_their_producers_wrote_them(spark: Any, scene: SceneOf) -> None:
    """Whatever the official client compressed them with; written again they are to it what they were."""
    async with scene(queues=1) as here:
        for kind in CODECS:
            await java_produce(here.source.namesrv, [Order(topic=here.topic, body=BODY, keys=kind)], compress=kind)
        await settled(here.source, here.topic, 3)
        frame = reading(spark, here).drop("brokerName", "queueId")
        assert {row["keys"]: (bytes(row.body), hex(row.sysFlag & 0x701)) for row in frame.collect()} == {
            "zlib": (BODY, "0x301"),
            "lz4": (BODY, "0x101"),
            "zstd": (BODY, "0x201"),
        }
        await create_topic(here.target, here.topic, queues=1)
        writing(frame, here)
        writing(
            frame.selectExpr("topic", "concat('<', cast(body AS string), '>') AS body", "keys", "sysFlag"), here
        )
        await settled(here.target, here.topic, 6)
        read = await java_read_topic(here.target.namesrv, here.topic)
        assert sorted((message.properties["KEYS"], message.body) for message in read) == sorted(
            (kind, body) for kind in CODECS for body in (BODY, b"<%b>" % BODY)
        )


async def test_a_damaged_body_is_null(spark: Any, scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not written as if it were one; bodies of before 5.0 name no kind of compression."""
    whole = {0x001: zlib.compress(BODY), 0x101: lz4.frame.compress(BODY), 0x201: zstd.compress(BODY)}
    async with scene(queues=1) as here, connected(here.source) as client:
        broker = here.source.brokers[0].name
        for kind, body in whole.items():
            for name, part in (("whole", body), ("cut off", body[:-5]), ("other", b"other")):
                await send(client, broker, here.topic, 0, [(part, {"KEYS": name})], sys_flag=kind)
        await settled(here.source, here.topic, 9)
        frame = reading(spark, here).drop("brokerName", "queueId")
        rows = frame.orderBy("queueOffset").collect()
        assert [(row["keys"], row.body and bytes(row.body)) for row in rows] == [
            ("whole", BODY),
            ("cut off", None),
            ("other", None),
        ] * 3
        await create_topic(here.target, here.topic)
        with pytest.raises(Exception, match="a row has no body: leave such rows out"):
            writing(frame, here)
        writing(frame.where("body IS NOT NULL"), here)
        await settled(here.target, here.topic, 3)


def milliseconds(time: datetime) -> int:
    return (time.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


async def test_columns_are_what_is_stored(spark: Any, scene: SceneOf) -> None:
    """Store times to the millisecond, sysFlag and reconsume times to the bit, of several topics that are named."""
    async with scene(queues=2) as here, connected(here.source) as client:
        other, broker = f"{here.topic}-other", here.source.brokers[0].name
        await create_topic(here.source, other, queues=1)
        await here.produce(50)
        for number, (kind, reconsumed) in enumerate(((0x301, 0), (0x0, 3), (0x201, 16))):
            message = (zlib.compress(BODY), {"UNIQ_KEY": f"{number}"})
            await send(client, broker, other, 0, [message], sys_flag=kind, reconsume_times=reconsumed)
        await settled(here.source, here.topic, 50)
        await settled(here.source, other, 3)
        rows = reading(spark, here, topic=f"{here.topic}, {other}", endingOffsets="latest").collect()
        found = [(r.topic, r.queueId, r.queueOffset, r.sysFlag, r.reconsumeTimes) for r in rows]
        times = [(milliseconds(r.bornTimestamp), milliseconds(r.storeTimestamp)) for r in rows]
        stored = {topic: await raw_topic(here.source, topic) for topic in (here.topic, other)}
        assert sorted(zip(found, times, strict=True)) == sorted(
            (
                (topic, queue_id, m.queue_offset, m.sys_flag, m.reconsume_times),
                (m.born_timestamp, m.store_timestamp),
            )
            for topic, queues in stored.items()
            for (_, queue_id), messages in queues.items()
            for m in messages
        )
        assert {row.reconsumeTimes for row in rows} == {0, 3, 16}


async def test_a_pattern_reads_no_topics_of_brokers(spark: Any, scene: SceneOf) -> None:
    """In a batch and in a stream; what is named is read, whatever it is."""
    async with scene(queues=1) as here:
        group, broker = f"g-{here.topic}", here.source.brokers[0].name
        mine = {here.topic, f"{here.topic}-more", f"{here.topic}-empty"}
        systems = [f"%RETRY%{group}", f"%DLQ%{group}", f"replicator_sys_{here.topic}"]
        for topic in [*mine - {here.topic}, *systems]:
            await create_topic(here.source, topic, queues=1)
        systems += [broker, here.source.spec.name, "SCHEDULE_TOPIC_XXXX"]
        assert set(systems) <= (await topics_of(here.source))[broker].keys()
        filled = [here.topic, f"{here.topic}-more", f"%DLQ%{group}"]
        for topic in filled:
            await produce(here.source, topic, 10)
            await settled(here.source, topic, 10)
        options = {"nameServer": here.source.namesrv, "topicsPattern": ".*", "startingOffsets": "earliest"}
        async with connected(here.source) as client:
            batch = {part.topic for part in await freeze(client, ReadOptions.of(options))}
        assert mine <= batch
        assert not batch & set(systems)
        stream = StreamReader(ReadOptions.of(options, streaming=True))
        try:
            first = await asyncio.to_thread(stream.initialOffset)
            found = await asyncio.to_thread(lambda: stream.latestOffset(first, stream.getDefaultReadLimit()))
        finally:
            await asyncio.to_thread(stream.stop)
        assert mine <= set(first) & set(found)
        assert not (set(first) | set(found)) & set(systems)
        some = reading(spark, here, topic=None, topicsPattern=f"{here.topic}.*|%DLQ%{group}")
        assert {row.topic for row in some.collect()} == set(filled[:2])
        named = reading(spark, here, topic=",".join([*filled, *systems[:3]]))
        assert {row.topic for row in named.collect()} == set(filled)


async def test_only_some_queues_and_columns(spark: Any, scene: SceneOf) -> None:
    """Queues by `assign`, columns by the option or a schema; what does not exist is refused before tasks begin."""
    async with scene() as here:
        await here.produce(400)
        await settled(here.source, here.topic, 400)
        broker = here.source.brokers[0].name
        whole = {(row.queueId, row.queueOffset): row for row in reading(spark, here).collect()}
        assigned = json.dumps({here.topic: {broker: [1, 3]}})
        some = reading(spark, here, topic=None, assign=assigned, columns="queueoffset, properties,queueId")
        assert some.columns == ["queueId", "queueOffset", "properties"]
        rows = {(row.queueId, row.queueOffset): row for row in some.collect()}
        assert rows.keys() == {place for place in whole if place[0] in (1, 3)}
        assert all(row.properties == whole[place].properties for place, row in rows.items())
        nowhere = json.dumps({here.topic: {broker: [4]}})
        reader = spark.read.format("rocketmq").option("nameServer", here.source.namesrv).option("topic", here.topic)
        keys = reader.schema("keys STRING, queueOffset BIGINT").load()
        assert sorted(keys.collect()) == sorted((row.keys, row.queueOffset) for row in whole.values())
        for schema, message in (
            ("keys STRING, value BINARY", "a read has no column value: there are topic, brokerName"),
            ("queueOffset INT", "column queueOffset is bigint, not int: cast it after the read"),
        ):
            with pytest.raises(Exception, match=message):
                reader.schema(schema).load().count()
        for options, message in (
            ({"topic": "No-Such-A , No-Such-B"}, "topic = 'No-Such-A, No-Such-B': no broker has it"),
            ({"topic": None, "assign": nowhere}, f"assign names {here.topic}/{broker}/4, which does not exist"),
            ({"topic": None, "assign": '{"No-Such":{"b":[0]}}'}, "topic = 'No-Such': no broker has it"),
        ):
            with pytest.raises(Exception, match=message) as told:
                reading(spark, here, **options).count()
            assert "in partitions" in str(told.value)


async def test_times_of_some_queues(spark: Any, scene: SceneOf) -> None:
    """The other queues are read from their first message to their last."""
    async with scene(queues=2) as here:
        for half in (0, 200):
            await here.produce(200, start=half)
            await settled(here.source, here.topic, half + 200)
        stored = {queue: messages for (_, queue), messages in (await raw_topic(here.source, here.topic)).items()}
        broker, queue = here.source.brokers[0].name, min(stored)
        middle = stored[queue][150].store_timestamp
        times = json.dumps({here.topic: {broker: {str(queue): middle}}})
        late = sum(message.store_timestamp >= middle for message in stored[queue])
        assert 0 < late < 200
        assert reading(spark, here, startingOffsetsByTimestamp=times).count() == 200 + late
        assert reading(spark, here, endingOffsetsByTimestamp=times).count() == 400 - late


def at(here: Scene, offset: int) -> str:
    return json.dumps({here.topic: {here.source.brokers[0].name: {"0": offset}}})


async def test_offsets_that_leave_nothing(scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error with the queue, both offsets and the way out; with `failOnDataLoss=false` the queue is left out."""
    async with scene(queues=1) as here, connected(here.source) as client:
        await here.produce(100)
        await settled(here.source, here.topic, 100)

        async def frozen(**options: str) -> list[tuple[int, int]]:
            given = {"nameServer": here.source.namesrv, "topic": here.topic, **options}
            return [(part.start, part.end) for part in await freeze(client, ReadOptions.of(given))]

        async def refused(message: str, **options: str) -> None:
            with pytest.raises(ConfigError, match=message):
                await frozen(**options)
            ((start, end),) = await frozen(**options, failOnDataLoss="false")
            assert start == end

        backwards = "0 was requested from startingOffsets = {} to endingOffsets = {}: .*failOnDataLoss=false"
        await refused(backwards.format(60, 40), startingOffsets=at(here, 60), endingOffsets=at(here, 40))
        await refused(backwards.format(100, 40), startingOffsets=at(here, 100), endingOffsets=at(here, 40))
        assert await frozen(startingOffsets=at(here, 60), endingOffsets=at(here, 60)) == [(60, 60)]
        # All messages were stored before the one time, and after the other.
        assert await frozen(startingTimestamp="4000000000000", endingOffsets=at(here, 40)) == [(40, 40)]
        assert await frozen(startingOffsets=at(here, 60), endingTimestamp="1000") == [(0, 0)]

        async def oldest(*_: object) -> int:
            return 50

        monkeypatch.setattr(offsets, "min_offset", oldest)
        told = "0 has the offsets 50 to 100, {} to {} were requested: .*failOnDataLoss=false"
        await refused(told.format(50, 40), endingOffsets=at(here, 40))
        await refused(told.format(10, 40), startingOffsets=at(here, 10), endingOffsets=at(here, 40))
        assert await frozen(endingOffsets=at(here, 70)) == [(50, 70)]
