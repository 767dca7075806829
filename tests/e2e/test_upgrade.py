"""Brokers of both clusters are upgraded in place, on the same store, under load: 4.9.7 to 5.3.3 to 5.5.0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec, jars
from tests.support.clusters import ClusterPool
from tests.support.traffic import Producer, create_topic, judge
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(300)


async def upgrade(cluster: Cluster, version: str, *, kill: bool) -> None:
    """Ends all nodes, by SIGTERM or SIGKILL, and starts them as another version."""
    for node in cluster.nodes:
        await (node.kill() if kill else node.stop())
    classpath = jars.ensure(version)
    for node in cluster.nodes:
        setup = node._setup
        node._setup = replace(setup, spec=replace(setup.spec, version=version), classpath=classpath)
        await node.start()


@pytest.mark.parametrize("first", [False, True], ids=["SIGTERM first", "SIGKILL first"])
async def test_in_place_under_load(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], first: bool
) -> None:
    """The source and the target in turn; every acknowledged message is there once, in order."""
    topic = topic_name("t")
    east, west = ClusterSpec(name="east", version="4.9.7"), ClusterSpec(name="west", version="4.9.7")
    async with clusters.fresh(east) as source, clusters.fresh(west) as target:
        await create_topic(source, topic, queues=2)
        async with Worker(source, target, tmp_path, "--topics", topic, "--session-timeout", "3") as worker:
            async with Producer(source, topic, per_second=500, patient=True) as producer:
                for cluster, version, kill in (
                    (source, "5.3.3", first),
                    (target, "5.3.3", not first),
                    (target, "5.5.0", first),
                    (source, "5.5.0", not first),
                ):
                    before, copied = producer.acknowledged, worker.topic(topic).get("copied", 0)
                    await until(lambda: producer.acknowledged > before + 100)  # noqa: B023 - awaited at once
                    await until(lambda: worker.topic(topic).get("copied", 0) > copied)  # noqa: B023 - the same
                    await upgrade(cluster, version, kill=kill)
                after = producer.acknowledged
                await until(lambda: producer.acknowledged > after + 100)
            await until(lambda: worker.has_copied(topic, producer.acknowledged, in_all=True))
            await until(lambda: worker.metric("lag_messages") == 0)
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies >= producer.acknowledged
