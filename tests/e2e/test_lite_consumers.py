"""Groups of lite topics (5.5.0) switch sites in mid-stream: the official client, with Proxies on both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.e2e.test_light_queues import LMQ
from tests.e2e.test_pop_consumers import failed_over
from tests.support.clusters import ClusterPool
from tests.support.grpctool import Got, grpc_consume, grpc_produce
from tests.support.offsets import make_group
from tests.support.readiness import asked, ready
from tests.support.traffic import create_topic
from tests.support.worker import SYNC_QUICKLY, Worker

pytestmark = pytest.mark.timeout(300)

EAST = ClusterSpec(name="east", version="5.5.0", proxy=True, properties=LMQ)
WEST = ClusterSpec(name="west", version="5.5.0", proxy=True, properties=LMQ)
#: Messages of each test, and those that are consumed at the source, of which some are not acknowledged.
ALL, FIRST, HELD = 60, 40, {"24", "31"}
LITE = ("red", "green", "blue")


@pytest.mark.parametrize("source_dead", [False, True], ids=["alive", "dead"])
async def test_a_group_goes_on_where_it_is_in_each_lite_topic(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], *, source_dead: bool
) -> None:
    """What it has not acknowledged comes again, and nothing else; each lite topic in its order."""
    topic, group = topic_name("t"), topic_name("g")
    target = await clusters.get(WEST)
    async with clusters.fresh(EAST) as source:
        await create_topic(source, topic, queues=4, attributes={"message.type": "LITE"})
        await make_group(source, group, consumeMessageOrderly=True, attributes={"+lite.bind.topic": topic})
        await grpc_produce(source.proxy.address, topic, ALL, type_="lite", lite=",".join(LITE))
        before = await consume(source, topic, group, count=FIRST, hold=HELD)
        flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
        async with Worker(source, target, tmp_path / "worker", *flags) as worker:
            await worker.caught_up(topic, ALL)
            await ready(worker)
            told = [each for each in (await asked(worker, "GET", "readiness"))["groups"] if each["group"] == group]
            assert {each["topic"] for each in told} == {f"%LMQ%${topic}${lite}" for lite in LITE}
            if source_dead:
                for node in source.nodes:
                    await node.kill()
                report = await failed_over(worker)
            else:
                report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
            assert not any("light message queues" in each for each in report["problems"]), report
    after = await consume(target, topic, group)
    done = {each.body for each in before if each.acknowledged}
    assert Counter(each.body for each in after) == Counter({str(i) for i in range(ALL)} - done)
    for number in range(len(LITE)):
        of_lite = [int(each.body) for each in after if int(each.body) % len(LITE) == number]
        assert of_lite == sorted(of_lite)


async def consume(cluster: Cluster, topic: str, group: str, **options: Any) -> list[Got]:
    return await grpc_consume(cluster.proxy.address, topic, group, mode="lite", lite=",".join(LITE), **options)
