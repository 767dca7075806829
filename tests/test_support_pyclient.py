"""rocketmq-client-python as the tests drive it: it sends, consumes, and its processes end cleanly."""

from __future__ import annotations

import pytest

from replicator.client.cluster import Cluster as Client
from replicator.client.topics import TopicConfig, write_topic
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.pyclient import PyClientError, PyConsumer, PyProducer

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def made(clusters: ClusterPool, topic: str) -> Cluster:
    cluster = await clusters.get(ClusterSpec(name="east"))
    client = Client([cluster.namesrv])
    try:
        await client.refresh()
        config = TopicConfig(name=topic, read_queues=4, write_queues=4)
        await write_topic(client.reader(cluster.brokers[0].name), config)
    finally:
        await client.close()
    return cluster


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_what_is_sent_is_consumed_once(clusters: ClusterPool, orderly: bool) -> None:
    topic = f"python-{orderly}"
    cluster = await made(clusters, topic)
    async with PyProducer(cluster.namesrv) as producer:
        for number in range(50):
            await producer.send(topic, f"bödy {number}", keys=str(number), tags="T", properties={"a": "ä"})
    group = f"python-readers-{orderly}"
    async with PyConsumer(cluster.namesrv, topic, group=group, properties=["a"], orderly=orderly) as consumer:
        found = await consumer.take(50)
    assert sorted(int(message.keys) for message in found) == list(range(50))
    assert {(m.tags, m.properties["a"], m.body == f"bödy {m.keys}") for m in found} == {("T", "ä", True)}
    assert (producer.exit_code, consumer.exit_code) == (0, 0)

    async with PyProducer(cluster.namesrv) as producer:
        await producer.send(topic, "one more", keys="50")
    async with PyConsumer(cluster.namesrv, topic, group=group) as consumer:
        (message,) = await consumer.take(1)
    assert message.keys == "50"  # the others were committed when the first member left


async def test_sends_that_fail_are_told(clusters: ClusterPool) -> None:
    cluster = await made(clusters, "python-errors")
    async with PyProducer(cluster.namesrv) as producer:
        with pytest.raises(PyClientError, match="No route info"):
            await producer.send("nowhere", "x")
        with pytest.raises(PyClientError, match="NUL"):
            await producer.send("python-errors", "a\0b")
        await producer.send("python-errors", "still alive")
    assert producer.exit_code == 0


async def test_a_consumer_ends_on_sigterm(clusters: ClusterPool) -> None:
    cluster = await made(clusters, "python-term")
    async with PyConsumer(cluster.namesrv, "python-term", group="python-term") as consumer:
        consumer.running.terminate()
    assert consumer.exit_code == 0
