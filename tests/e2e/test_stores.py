"""Brokers that keep messages, queues or settings otherwise than in the usual files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from replicator.client.endpoint import Endpoint
from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.ledger import Ledger
from tests.support.move import move
from tests.support.narrow import oldest as oldest_offset
from tests.support.narrow import retention
from tests.support.scene import SceneOf
from tests.support.stores import CONFIG_V2, ONE_DATABASE, ROCKSDB, TIERED
from tests.support.traffic import Producer
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("version", "kept"),
    [("5.3.3", ROCKSDB), ("5.5.0", ROCKSDB), ("5.5.0", CONFIG_V2), ("5.5.0", ONE_DATABASE)],
    ids=["5.3.3", "5.5.0", "configuration v2", "one database"],
)
async def test_rocksdb_on_both_sides(
    version: str, kept: Mapping[str, str], clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    east, west = (ClusterSpec(name=name, version=version, properties=kept) for name in ("rock", "stone"))
    source, target = await clusters.pair(east, west)
    await move(source, target, tmp_path, topic=topic_name("t"), group=topic_name("g"))


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
async def test_brokers_with_rocksdb_are_killed(version: str, scene: SceneOf) -> None:
    east, west = (ClusterSpec(name=name, version=version, properties=ROCKSDB) for name in ("rock", "stone"))
    async with scene(source=east, target=west, mistreated=(east, west)) as route, route.worker() as worker:
        async with Producer(route.source, route.topic, per_second=1000, patient=True) as producer:
            for cluster in (route.source, route.target):
                await worker.goes_on(route.topic, 300)
                await cluster.brokers[0].kill()
                await cluster.brokers[0].start()
        await worker.caught_up(route.topic, producer.acknowledged, in_all=True)
        await route.assert_clean()


async def _another_leads(cluster: Ledger, worker: Worker, topic: str) -> None:
    """The leader is killed while messages flow, and comes back when they do again."""
    leader = await cluster.leader()
    await leader.kill()
    assert await cluster.leader() is not leader
    await worker.goes_on(topic, 300)
    await leader.start()


@pytest.mark.parametrize("version", ["4.9.7", "5.1.4", "5.3.3", "5.5.0"])
async def test_dledger_elects_another_leader(version: str, scene: SceneOf, tmp_path: Path) -> None:
    async with (
        Ledger(version, tmp_path / "ledger") as source,
        scene(source=source) as route,
        route.worker() as worker,
    ):
        assert isinstance(source, Ledger)
        await source.know(route.topic)
        async with Producer(source, route.topic, per_second=500, patient=True) as producer:
            await worker.goes_on(route.topic, 300)
            await _another_leads(source, worker, route.topic)
        await worker.caught_up(route.topic, producer.acknowledged, in_all=True)
        await route.assert_clean()


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "5.5.0"])
async def test_dledger_elects_another_leader_at_the_target(version: str, scene: SceneOf, tmp_path: Path) -> None:
    """What a majority has is there; what the former leader had alone is sent again, once."""
    async with (
        Ledger(version, tmp_path / "ledger") as target,
        scene(target=target) as route,
        route.worker() as worker,
    ):
        assert isinstance(target, Ledger)
        async with Producer(route.source, route.topic, per_second=500, patient=True) as producer:
            await worker.goes_on(route.topic, 300)
            await target.know(route.topic)
            await _another_leads(target, worker, route.topic)
        await worker.caught_up(route.topic, producer.acknowledged, in_all=True)
        assert worker.topic(route.topic)["duplicates"] == 0
        await route.assert_clean()


async def test_messages_that_are_in_tiered_storage_alone(scene: SceneOf) -> None:
    spec = ClusterSpec(name="tiered", version="5.5.0", properties=TIERED)
    async with scene(source=spec, mistreated=(spec,), queues=1) as route:
        await route.produce(8000, size=400)
        (broker,) = route.source.brokers

        def moved() -> bool:
            """Whether all that was produced is in the second store, below the broker's working directory."""
            queues = broker.home.glob(f"*_tiered/{broker.name}/{route.topic}/0/CONSUME_QUEUE/*")
            return sum(path.stat().st_size for path in queues) >= 8000 * 20

        await until(moved, seconds=90, what="tiered storage has it all")
        oldest = min((broker.home / "store" / "commitlog").iterdir())

        async def gone(_: Endpoint) -> bool:
            return not oldest.exists()

        await retention(route.source, gone)
        assert await oldest_offset(route.source, route.topic) == 0
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 8000)
            assert worker.topic(route.topic)["gap_messages"] == 0
        await route.assert_clean(8000)
