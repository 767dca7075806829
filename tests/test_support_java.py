"""The official Java client as the tests drive it: what it sends is stored so, and read back so."""

from __future__ import annotations

import asyncio
import time

import pytest

from replicator.client.cluster import Cluster as Client
from replicator.client.topics import TopicConfig, write_topic
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.history import Place
from tests.support.javatool import (
    JavaToolError,
    Order,
    Read,
    java_consume,
    java_produce,
    java_read_topic,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMPRESSION_BITS = 0x700


async def made(clusters: ClusterPool, *topics: str) -> tuple[Cluster, str]:
    """A cluster with these topics, and its broker's name."""
    cluster = await clusters.get(ClusterSpec(name="east", version="5.3.3"))
    client = Client([cluster.namesrv])
    try:
        await client.refresh()
        broker = cluster.brokers[0].name
        for topic in topics:
            config = TopicConfig(name=topic, read_queues=4, write_queues=4)
            await write_topic(client.reader(broker), config)
    finally:
        await client.close()
    return cluster, broker


async def read_until(namesrv: str, topic: str, *, count: int) -> dict[str, Read]:
    """All messages by key, once there are `count`: delayed ones come late."""
    deadline = time.monotonic() + 60
    while True:
        found = {read.properties["KEYS"]: read for read in await java_read_topic(namesrv, topic)}
        if len(found) >= count or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.5)


async def test_every_kind_of_message_is_sent_and_read(clusters: ClusterPool) -> None:
    cluster, broker = await made(clusters, "java-kinds")
    topic = "java-kinds"
    properties = {"region": "ä=\t b\x03"}
    orders = [
        Order(topic=topic, body=b"a\0b", keys="plain", tags="A", flag=9, properties=properties, queue=(broker, 2)),
        Order(topic=topic, body=b"shard", keys="shard", shard=1),
        Order(topic=topic, body=b"level", keys="level", level=1),
        Order(topic=topic, body=b"timer", keys="timer", delay_s=1),
        Order(topic=topic, body=b"at", keys="at", deliver_ms=int(time.time() * 1000) + 1_000),
        Order(topic=topic, body=b"kept", keys="kept", kind="commit"),
        Order(topic=topic, body=b"undone", keys="undone", kind="rollback"),
        *(Order(topic=topic, body=b"b", keys=f"b{i}", kind="batch", queue=(broker, 3)) for i in range(3)),
    ]
    sent = await java_produce(cluster.namesrv, orders)
    assert {answer.status for answer in sent} == {"SEND_OK"}
    assert [answer.state for answer in sent if answer.state] == ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE"]
    assert len(sent) == len(orders) - 2

    found = await read_until(cluster.namesrv, topic, count=9)
    assert set(found) == {"plain", "shard", "level", "timer", "at", "kept", "b0", "b1", "b2"}
    plain = found["plain"]
    assert (plain.broker, plain.queue, plain.flag, plain.body) == (broker, 2, 9, b"a\0b")
    assert plain.properties.items() >= {"region": properties["region"], "TAGS": "A"}.items()
    assert found["shard"].queue == 1
    assert found["level"].properties["DELAY"] == "1"
    assert found["level"].stored - found["level"].born >= 900
    assert "TIMER_DELAY_SEC" in found["timer"].properties
    assert "TIMER_DELIVER_MS" in found["at"].properties
    assert found["kept"].properties["TRAN_MSG"] == "true"
    assert [found[f"b{i}"].offset - found["b0"].offset for i in range(3)] == [0, 1, 2]

    message = plain.message(lambda seen: Place("origin", 1, 2) if "region" in seen else None)
    assert (message.place, message.keys, message.tags) == (Place(broker, 2, plain.offset), "plain", "A")
    assert message.origin == Place("origin", 1, 2)
    assert not {"KEYS", "TAGS", "MIN_OFFSET", "MAX_OFFSET"} & message.properties.keys()


@pytest.mark.parametrize(("name", "bits"), [("zlib", 0x300), ("lz4", 0x100), ("zstd", 0x200)])
async def test_bodies_are_compressed(clusters: ClusterPool, name: str, bits: int) -> None:
    topic = f"java-{name}"
    cluster, _ = await made(clusters, topic)
    await java_produce(cluster.namesrv, [Order(topic=topic, body=b"x" * 500)], compress=name, vip=True)
    (read,) = await java_read_topic(cluster.namesrv, topic)
    assert read.body == b"x" * 500
    assert read.sys_flag & COMPRESSION_BITS == bits


async def test_sql_and_tags_filter(clusters: ClusterPool) -> None:
    topic = "java-filter"
    cluster, _ = await made(clusters, topic)
    await java_produce(
        cluster.namesrv,
        [Order(topic=topic, body=b"x", keys=str(i), tags="AB"[i % 2], properties={"n": str(i)}) for i in range(6)],
    )
    by_sql = await java_read_topic(cluster.namesrv, topic, sql="n > 3")
    by_tag = await java_read_topic(cluster.namesrv, topic, tags="B")
    assert sorted(read.properties["KEYS"] for read in by_sql) == ["4", "5"]
    assert sorted(read.properties["KEYS"] for read in by_tag) == ["1", "3", "5"]


async def test_a_group_goes_on_where_it_stopped(clusters: ClusterPool) -> None:
    topic = "java-group"
    cluster, _ = await made(clusters, topic)
    await java_produce(cluster.namesrv, [Order(topic=topic, body=b"x", keys=str(i)) for i in range(20)])
    first = await java_consume(cluster.namesrv, topic, group="java-readers", count=7)
    rest = await java_consume(cluster.namesrv, topic, group="java-readers", count=13, idle=60)
    assert len(first) == 7
    assert sorted(int(read.properties["KEYS"]) for read in [*first, *rest]) == list(range(20))


async def test_a_failure_is_told_with_its_reason(clusters: ClusterPool) -> None:
    cluster, _ = await made(clusters)
    with pytest.raises(JavaToolError, match="No route info of this topic"):
        await java_produce(cluster.namesrv, [Order(topic="nowhere", body=b"x")])
