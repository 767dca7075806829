"""Two sources, one target topic: each has queues of its own there, or the second one is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.protocol import properties
from replicator.routing import provenance
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.offsets import commit, make_group
from tests.support.readiness import exact, ready
from tests.support.traffic import create_topic, judge, produce, raw_topic
from tests.support.worker import SYNC_QUICKLY, Worker, group_of_test, until

pytestmark = pytest.mark.timeout(300)

EAST, NORTH, HUB = (
    ClusterSpec(name="east", version="5.3.3"),
    ClusterSpec(name="north", version="4.9.7"),
    ClusterSpec(name="west", version="5.3.3"),
)


async def sources_of(cluster: Cluster, topic: str) -> dict[int, set[tuple[str, int]]]:
    """Of each queue that has copies, the source queues that they came from, by their brokers' names."""
    found: dict[int, set[tuple[str, int]]] = {}
    for (_, queue), messages in (await raw_topic(cluster, topic)).items():
        copies = [copy for message in messages if (copy := provenance.read(message.properties))]
        if copies:
            found[queue] = {(copy.broker, copy.queue_id) for copy in copies}
    return found


async def _has_queues(worker: Worker, topic: str, count: int) -> None:
    await until(lambda: len(worker.queues(topic)) == count, what="new queues")


async def test_a_second_source_gets_queues_of_its_own(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Also once both topics grow, and for a worker whose state is lost. A group has an exact offset in each."""
    east, north, hub = [await clusters.get(spec) for spec in (EAST, NORTH, HUB)]
    topic, group = topic_name("orders"), group_of_test()
    for cluster, start in ((east, 0), (north, 1000)):
        await create_topic(cluster, topic, queues=2)
        await produce(cluster, topic, 100, start=start)
        await make_group(cluster, group)
        broker = cluster.brokers[0].name
        await commit(cluster, group, topic, {(broker, 0): 20, (broker, 1): 30})
    flags = ("--topics", topic, *SYNC_QUICKLY, "--sync-groups", group)
    async with Worker(east, hub, tmp_path / "east", *flags, group=f"{group}-east") as first:
        await first.caught_up(topic, 100)
        refused = Worker(north, hub, tmp_path / "refused", *flags, group=f"{group}-north")
        await refused.start(ready=False)
        assert await refused.wait() == 3
        assert f"2 queues of topic {topic} hold copies from another source (cluster " in refused.log
        assert "on_other_source=own-queues gives each source queues of its own" in refused.log
        own = (*flags, "--on-other-source", "own-queues")
        async with Worker(north, hub, tmp_path / "north", *own, group=f"{group}-north") as second:
            await second.caught_up(topic, 100)
            # Both grow: the first one's new queues are not those of the second, and the other way around.
            for cluster, worker, start in ((east, first, 100), (north, second, 1100)):
                await create_topic(cluster, topic, queues=4)
                await _has_queues(worker, topic, 4)
                await produce(cluster, topic, 100, start=start)
                await worker.caught_up(topic, 200)
            assert all([(await ready(worker))["ready"] for worker in (first, second)])
            for cluster in (east, north):
                await exact(cluster, hub, group, topic)
            assert await second.drain() == 0
        shutil.rmtree(second.store)
        async with Worker(north, hub, tmp_path / "north", *own, group=f"{group}-north-again") as again:
            await produce(north, topic, 40, start=1200)
            await again.caught_up(topic, 40)
            assert await again.drain() == 0
        assert await first.drain() == 0
    found = await sources_of(hub, topic)
    assert len(found) == 8
    assert all(len(sources) == 1 for sources in found.values())
    for cluster in (east, north):
        verdict = await judge(cluster, hub, topic)
        assert (verdict.lost, verdict.duplicated, verdict.out_of_order, verdict.changed) == ((), (), (), ())
        assert not verdict.split


async def test_a_topic_that_is_copied_back_shares_its_queues_or_is_refused(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Else each of the two routes would make room for what the other one has made, without end."""
    east, north, hub = [await clusters.get(spec) for spec in (EAST, NORTH, HUB)]
    topic, flags, group = topic_name("orders"), ("--topics", topic_name("orders")), group_of_test()
    for cluster, start in ((east, 0), (north, 1000), (hub, 2000)):
        await create_topic(cluster, topic, queues=2)
        await produce(cluster, topic, 50, start=start)
    async with (
        Worker(north, hub, tmp_path / "north", *flags, group=f"{group}-north") as other,
        Worker(hub, east, tmp_path / "back", *flags, group=f"{group}-back") as back,
    ):
        await other.caught_up(topic, 50)
        await back.caught_up(topic, 100)
        own = (*flags, "--on-other-source", "own-queues")
        refused = Worker(east, hub, tmp_path / "refused", *own, group=f"{group}-there")
        await refused.start(ready=False)
        assert await refused.wait() == 3
        assert "own-queues is not possible, as it is copied back, too" in refused.log
        shared = (*flags, "--on-other-source", "share")
        async with Worker(east, hub, tmp_path / "there", *shared, group=f"{group}-there") as there:
            await there.caught_up(topic, 50)
            assert await there.drain() == 0
    stored = await raw_topic(hub, topic)
    told = [properties.decode(message.properties)["n"] for messages in stored.values() for message in messages]
    assert len(told) == len(set(told)) == 150
    assert len(stored) == 2
