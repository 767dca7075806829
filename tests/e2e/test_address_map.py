"""Clusters whose brokers advertise addresses that lead nowhere from here are copied by a map."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replicator.client.address_map import AddressMap
from replicator.client.cluster import Cluster as Client
from replicator.client.security import Security
from replicator.sandbox import Cluster, ClusterSpec
from tests.support import traffic
from tests.support.clusters import ClusterPool
from tests.support.worker import SYNC_QUICKLY, Worker

SOURCE = ClusterSpec(name="behind", version="5.3.3", broker_ip="127.0.0.8")
TARGET = ClusterSpec(name="beyond", version="5.3.3", broker_ip="127.0.0.9")


@asynccontextmanager
async def reached(cluster: Cluster) -> AsyncIterator[Client]:
    """The client of `traffic`, by a map."""
    where = AddressMap.of([f"{cluster.spec.broker_ip}=127.0.0.1"])
    client = Client(cluster.namesrv.split(","), security=Security(address_map=where))
    await client.refresh()
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.timeout(300)
async def test_messages_and_offsets(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the VIP port, which has the same host; without the map nothing is reached, which is said."""
    monkeypatch.setattr(traffic, "connected", reached)
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await traffic.create_topic(source, topic, queues=2)
    await traffic.produce(source, topic, 300)
    maps = ("--source-address-map", "127.0.0.8=127.0.0.1", "--target-address-map", "127.0.0.9=127.0.0.1")
    async with Worker(source, target, tmp_path / "mapped", "--topics", topic, *SYNC_QUICKLY, *maps) as worker:
        await worker.caught_up(topic, 300)
        assert "VIP port" not in worker.log
    copies = await traffic.raw_topic(target, topic)
    assert sum(map(len, copies.values())) == 300
    lost = Worker(source, target, tmp_path / "lost", "--topics", topic, *SYNC_QUICKLY, group=topic_name("lost"))
    await lost.start(ready=False)
    assert await lost.wait() == 3
    assert "127.0.0.8" in lost.log
