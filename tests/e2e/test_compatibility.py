"""Every version as the source and the target of every other: one scene with what a move needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.client.groups import read_groups
from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.compatibility import pairs
from tests.support.javatool import Order, java_consume, java_produce
from tests.support.offsets import make_group
from tests.support.readiness import asked, ready
from tests.support.traffic import connected, create_topic, judge, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(("source_version", "target_version"), pairs())
async def test_a_pair(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_version: str,
    target_version: str,
) -> None:
    """Plain, batch, delayed, timer and transactional messages; the topic, a group, its offsets; and the switch."""
    topic, group = topic_name("t"), topic_name("g")
    east, west = ClusterSpec(name="east", version=source_version), ClusterSpec(name="west", version=target_version)
    source, target = await clusters.pair(east, west)
    await create_topic(source, topic, queues=3)
    await make_group(source, group, retryMaxTimes=7)
    orders = [
        Order(topic=topic, body=b"%d" % i, keys=f"k{i}", tags="a", properties={"ключ": "é"}) for i in range(20)
    ]
    orders += [Order(topic=topic, body=b"in one", keys=f"b{i}", kind="batch") for i in range(5)]
    orders += [Order(topic=topic, body=b"later", keys=f"d{i}", level=1) for i in range(3)]
    orders += [Order(topic=topic, body=b"done", keys=f"c{i}", kind="commit") for i in range(3)]
    orders += [Order(topic=topic, body=b"undone", keys="never", kind="rollback")]
    if source_version != "4.9.7":
        orders += [Order(topic=topic, body=b"at a time", keys=f"t{i}", delay_s=1) for i in range(3)]
    wanted = sorted(order.keys for order in orders if order.kind != "rollback")
    await java_produce(source.namesrv, orders)
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        await worker.caught_up(topic, len(wanted))
        first = await java_consume(source.namesrv, topic, group=group, count=14)
        await ready(worker)
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        report = await asked(worker, "POST", "failover", {"drain_seconds": 20})
        assert (report["drained"], report["problems"]) == (True, [])
    there = (await topics_of(target))["west-a"][topic]
    assert (there.read_queues, there.write_queues, there.perm) == (3, 3, 6)
    async with connected(target) as client:
        assert (await read_groups(client.master("west-a"))).groups[group]["retryMaxTimes"] == 7
    rest = await java_consume(target.namesrv, topic, group=group, count=len(wanted) - len(first), idle=20)
    keys = [[read.properties["KEYS"] for read in reads] for reads in (first, rest)]
    assert sorted(keys[0] + keys[1]) == wanted, keys
