"""Another replica becomes the master, by election or manually, at either side: nothing is lost in silence."""

from __future__ import annotations

import asyncio
from itertools import takewhile

import pytest

from replicator.protocol import properties
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.replicas import Replicas, know_topic
from tests.support.scene import Scene, SceneOf
from tests.support.slaves import replicated
from tests.support.traffic import Producer, raw_topic
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(300)

SOURCE = ClusterSpec(name="elected", version="5.3.3", ha="controller")
TARGET = ClusterSpec(name="electing", version="5.5.0", ha="controller")
KEPT, LOST, NEW = 200, 100, 1500


async def _numbers(cluster: Cluster, topic: str) -> list[int]:
    """Of all messages of a cluster, in order."""
    (messages,) = (await raw_topic(cluster, topic)).values()
    return [int(properties.decode(message.properties)["n"]) for message in messages]


def _counted(worker: Worker, route: Scene) -> tuple[int, int, int, int]:
    """Gaps, duplicates, foreign messages, and what the target has lost."""
    topic = worker.topic(route.topic)
    return topic["gap_messages"], topic["duplicates"], topic["foreign"], topic["target_lost"]


async def test_at_the_source(scene: SceneOf) -> None:
    """A clean election changes nothing; after an unclean one it is told, and no new message is left out."""
    async with scene(source=SOURCE, mistreated=(SOURCE,), queues=1) as route, route.worker() as worker:
        replicas = Replicas(route.source)
        await know_topic((await replicas.roles())[1], route.topic)
        async with Producer(route.source, route.topic, per_second=1000, patient=True) as producer:
            await until(lambda: worker.has_copied(route.topic, 200))
            behind = await replicas.fail_over()
            await worker.goes_on(route.topic, 200, seconds=30)
        await worker.caught_up(route.topic, producer.acknowledged, in_all=True)
        await route.assert_clean()
        assert _counted(worker, route) == (0, 0, 0, 0)
        assert worker.metric("source_resets_total") == 0

        before = await _numbers(route.target, route.topic)
        former = await replicas.elect_uncleanly(behind)
        await route.produce(NEW, start=900_000)  # at the offsets of what is lost, and beyond
        await until(lambda: worker.has_copied(route.topic, len(before) + NEW), what="all that is new")
        await former.start()  # a slave that lacks nothing, and has what nobody has any more
        await route.produce(50, start=910_000)
        source = await _numbers(route.source, route.topic)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, source, strict=False)))
        assert 0 < common < len(before) < len(source)
        assert source[-NEW - 50 :] == [*range(900_000, 900_000 + NEW), *range(910_000, 910_050)]
        expected = [*before, *source[common:]]  # with what had been stored there and never been acknowledged

        async def arrived() -> bool:
            return len(await _numbers(route.target, route.topic)) >= len(expected)

        await until(arrived, what="all of it")
        assert await _numbers(route.target, route.topic) == expected
        assert worker.metric("source_resets_total") == 1
        assert "the source queue has other messages than those copied" in worker.log


async def test_at_the_target(scene: SceneOf) -> None:
    """A clean election changes nothing; after an unclean one what is lost is sent again, once."""
    async with scene(target=TARGET, mistreated=(TARGET,), queues=1) as route, route.worker() as worker:
        replicas = Replicas(route.target)
        async with route.producer(per_second=1000) as producer:
            await until(lambda: worker.has_copied(route.topic, 200))
            await know_topic((await replicas.roles())[1], route.topic)
            former = await replicas.fail_over()
            await worker.goes_on(route.topic, 200, seconds=30)
            await replicas.come_back(former)
            await worker.goes_on(route.topic, 200, seconds=30)
        await route.assert_clean_soon(producer.acknowledged)

        _, slave = await replicas.roles()
        slave.pause()  # in sync by name: what the master takes is stored, and not shown
        await route.produce(20, start=900_000)
        await until(
            lambda: worker.has_copied(route.topic, producer.acknowledged + 20, in_all=True),
            what="taken by the master",
        )
        assert await worker.drain() == 0
        starting = asyncio.create_task(worker.start())
        await asyncio.sleep(3)  # in which it finds the queue to end before what was acknowledged
        slave.resume()
        await starting
        await worker.caught_up(route.topic, 0)
        await route.assert_clean_soon(producer.acknowledged + 20)
        assert _counted(worker, route) == (0, 0, 0, 0)

        behind = await replicas.fall_apart()
        await route.produce(LOST, start=910_000)
        await worker.caught_up(route.topic, LOST)
        await replicas.elect_uncleanly(behind)
        await until(lambda: _counted(worker, route) == (0, 0, 0, LOST), what="loss counted")
        await route.produce(50, start=920_000)
        await route.assert_clean_soon(producer.acknowledged + 20 + LOST + 50)
        assert _counted(worker, route) == (0, 0, 0, LOST)


async def test_slaves_promoted_by_hand(clusters: ClusterPool, scene: SceneOf) -> None:
    """Of 4.9.7, at both sides: each lacks what its master had acknowledged."""
    twin, other = (ClusterSpec(name=name, version="4.9.7", slaves=True) for name in ("twin", "other-twin"))
    async with (
        clusters.fresh(twin) as source,
        clusters.fresh(other) as target,
        scene(source=source, target=target, queues=1) as route,
        route.worker() as worker,
    ):
        await route.produce(KEPT)
        await worker.caught_up(route.topic, KEPT)
        slaves = []
        for cluster in (source, target):
            slaves.append(await replicated(cluster, route.topic, KEPT))
            await slaves[-1].kill()
        await route.produce(LOST, start=900_000)
        await worker.caught_up(route.topic, KEPT + LOST)

        await target.brokers[0].kill()
        await slaves[1].promote()
        await until(lambda: _counted(worker, route) == (0, 0, 0, LOST), what="loss counted")
        await worker.caught_up(route.topic, KEPT + LOST)
        assert await _numbers(target, route.topic) == [*range(KEPT), *range(900_000, 900_000 + LOST)]

        await source.brokers[0].kill()
        await slaves[0].promote()
        await route.produce(NEW, start=910_000)
        await until(lambda: worker.metric("source_resets_total") == 1, what="reset told")
        await worker.caught_up(route.topic, KEPT + 2 * LOST + NEW)
        lost, new = range(900_000, 900_000 + LOST), range(910_000, 910_000 + NEW)
        assert await _numbers(target, route.topic) == [*range(KEPT), *lost, *new]
