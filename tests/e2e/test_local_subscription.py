"""Both clusters are written, and consumers of each read only what was born there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.javatool import java_consume
from tests.support.traffic import create_topic, produce, raw_topic
from tests.support.worker import Worker, group_of_test, until

pytestmark = pytest.mark.timeout(300)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.5.0")


async def test_a_subscription_by_sql_gets_local_messages_alone(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The official client with the expression that the guide gives."""
    east, west = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    for cluster, start in ((east, 0), (west, 1000)):
        await create_topic(cluster, topic, queues=2)
        await produce(cluster, topic, 60, start=start)
    async with (
        Worker(east, west, tmp_path / "there", "--topics", topic, group=f"{group_of_test()}-there") as there,
        Worker(west, east, tmp_path / "back", "--topics", topic, group=f"{group_of_test()}-back") as back,
    ):

        async def complete() -> bool:
            return all([sum(map(len, (await raw_topic(each, topic)).values())) == 120 for each in (east, west)])

        await until(complete, what="all messages at both sides")
        assert await _consumed(east, topic) == set(range(60))
        assert await _consumed(west, topic) == set(range(1000, 1060))
        for worker in (there, back):
            assert await worker.drain() == 0


async def _consumed(cluster: Cluster, topic: str) -> set[int]:
    group = f"{group_of_test()}-{cluster.brokers[0].name}"
    read = await java_consume(cluster.namesrv, topic, group=group, sql="__RPL_ORIGIN IS NULL", idle=5)
    return {int(message.properties["n"]) for message in read}
