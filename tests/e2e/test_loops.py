"""Routes that meet: no message returns to where it was born, and no cluster is copied to itself."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from replicator.protocol import properties
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.proxy import FaultProxy
from tests.support.traffic import create_topic, produce, raw_topic
from tests.support.worker import Worker, group_of_test, until

EAST = ClusterSpec(name="east", version="5.3.3")
WEST = ClusterSpec(name="west", version="5.3.3")
WEST_55 = ClusterSpec(name="west", version="5.5.0")
NORTH = ClusterSpec(name="north", version="4.9.7")


async def _numbers(cluster: Cluster, topic: str) -> Counter[int]:
    """How often each message is in a topic."""
    found = await raw_topic(cluster, topic)
    return Counter(int(properties.decode(m.properties)["n"]) for messages in found.values() for m in messages)


async def _ring(
    clusters: list[Cluster], tmp_path: Path, topic: str, routes: list[tuple[int, int]], *flags: str
) -> None:
    """Runs all routes at once while every cluster gets 200 messages of its own; waits until all is still."""
    async with contextlib.AsyncExitStack() as stack:
        for at, cluster in enumerate(clusters):
            await create_topic(cluster, topic, queues=2)
            await produce(cluster, topic, 100, start=1000 * at)
        workers = [
            await stack.enter_async_context(
                Worker(
                    clusters[a],
                    clusters[b],
                    tmp_path / f"{a}{b}",
                    "--topics",
                    topic,
                    *flags,
                    group=f"{group_of_test()}-{a}{b}",
                )
            )
            for a, b in routes
        ]
        for at, cluster in enumerate(clusters):
            await produce(cluster, topic, 100, start=1000 * at + 100)
        wanted = 200 * len(clusters)

        async def complete() -> bool:
            return all([len(await _numbers(cluster, topic)) == wanted for cluster in clusters])

        await until(complete)
        for worker in workers:
            await worker.caught_up(topic, 0)
            assert await worker.drain() == 0


async def test_there_and_back(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """East to west and west to east, same topic: each message is once in each."""
    pair = list(await clusters.pair(EAST, WEST))
    topic = topic_name("t")
    await _ring(pair, tmp_path, topic, [(0, 1), (1, 0)])
    for cluster in pair:
        counts = await _numbers(cluster, topic)
        assert set(counts.values()) == {1}
        assert len(counts) == 400


async def test_a_ring_of_three(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """East to west to north to east, three versions: all see all, nobody sees anything twice."""
    three = [await clusters.get(spec) for spec in (EAST, WEST_55, NORTH)]
    topic = topic_name("t")
    await _ring(three, tmp_path, topic, [(0, 1), (1, 2), (2, 0)])
    for cluster in three:
        counts = await _numbers(cluster, topic)
        assert set(counts.values()) == {1}
        assert len(counts) == 600


async def test_a_hub_and_its_spokes(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Both ways between west and each of the others: what one spoke gave reaches the other, and ends there."""
    three = [await clusters.get(spec) for spec in (EAST, WEST_55, NORTH)]
    topic = topic_name("t")
    await _ring(three, tmp_path, topic, [(0, 1), (1, 0), (2, 1), (1, 2)], "--on-other-source", "share")
    for cluster in three:
        counts = await _numbers(cluster, topic)
        assert set(counts.values()) == {1}
        assert len(counts) == 600


async def test_forward_local_passes_on_only_what_was_born_here(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """East to west to north with `forward=local`: north gets what west produced, not what it copied."""
    three = [await clusters.get(spec) for spec in (EAST, WEST, NORTH)]
    topic = topic_name("t")
    for at, cluster in enumerate(three[:2]):
        await create_topic(cluster, topic, queues=1)
        await produce(cluster, topic, 100, start=1000 * at)
    async with (
        Worker(three[0], three[1], tmp_path / "01", "--topics", topic) as first,
        Worker(three[1], three[2], tmp_path / "12", "--topics", topic, "--forward", "local") as second,
    ):
        await first.caught_up(topic, 100)
        await until(lambda: second.topic(topic).get("skipped") == 100)
        await second.caught_up(topic, 100)
    assert await _numbers(three[2], topic) == Counter(range(1000, 1100))


async def test_a_cluster_is_not_copied_to_itself_whatever_it_is_called(
    clusters: ClusterPool, tmp_path: Path
) -> None:
    """Another host name, another port: the brokers behind them are the same."""
    east = await clusters.get(EAST)
    host, _, port = east.namesrv.partition(":")
    async with FaultProxy(("127.0.0.1", 0), (host, int(port))) as proxy:
        for alias in (east.namesrv, f"localhost:{port}", f"127.0.0.1:{proxy.listen[1]}"):
            worker = Worker(east, alias, tmp_path, "--rename", "copy_{topic}")
            await worker.start(ready=False)
            assert await worker.wait() == 3
            assert "source and target are the same cluster" in worker.log.splitlines()[-1]
            assert "Traceback" not in worker.log


async def test_two_clusters_of_one_name_are_told_apart(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """`DefaultCluster` on both sides is usual: it works, and says how to make it last."""
    source, target = await clusters.pair(
        ClusterSpec(name="DefaultCluster", version="5.3.3"), ClusterSpec(name="DefaultCluster", version="4.9.7")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    await produce(source, topic, 100)
    async with (
        Worker(source, target, tmp_path / "there", "--topics", topic) as there,
        Worker(target, source, tmp_path / "back", "--topics", topic) as back,
    ):
        await there.caught_up(topic, 100)
        await until(lambda: back.topic(topic).get("skipped") == 100)
        assert "both clusters have the same name" in there.log
    assert await _numbers(source, topic) == Counter(range(100))
    assert await _numbers(target, topic) == Counter(range(100))
