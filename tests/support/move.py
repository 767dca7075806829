"""One scene with what a move needs: messages of every kind, a topic, a group with its offsets, and the switch."""

from __future__ import annotations

from pathlib import Path

from replicator.client.groups import read_groups
from replicator.sandbox import Cluster
from tests.support.javatool import Order, java_consume, java_produce
from tests.support.offsets import make_group
from tests.support.readiness import asked, ready
from tests.support.traffic import connected, create_topic, judge, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker

__all__ = ["move"]


async def move(source: Cluster, target: Cluster, directory: Path, *, topic: str, group: str) -> None:
    """Plain, batch, delayed, timer (5.x) and transactional messages; the group reads each of them once.

    Raises:
        AssertionError: something did not come along.
    """
    await create_topic(source, topic, queues=3)
    await make_group(source, group, retryMaxTimes=7)
    orders = [
        Order(topic=topic, body=b"%d" % i, keys=f"k{i}", tags="a", properties={"ключ": "é"}) for i in range(20)
    ]
    orders += [Order(topic=topic, body=b"in one", keys=f"b{i}", kind="batch") for i in range(5)]
    orders += [Order(topic=topic, body=b"later", keys=f"d{i}", level=1) for i in range(3)]
    orders += [Order(topic=topic, body=b"done", keys=f"c{i}", kind="commit") for i in range(3)]
    orders += [Order(topic=topic, body=b"undone", keys="never", kind="rollback")]
    if not source.spec.version.startswith("4."):
        orders += [Order(topic=topic, body=b"at a time", keys=f"t{i}", delay_s=1) for i in range(3)]
    wanted = sorted(order.keys for order in orders if order.kind != "rollback")
    await java_produce(source.namesrv, orders)
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, directory, *flags) as worker:
        await worker.caught_up(topic, len(wanted))
        first = await java_consume(source.namesrv, topic, group=group, count=14)
        await ready(worker)
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
        assert (report["drained"], report["problems"]) == (True, [])
    for broker in target.brokers:
        there = (await topics_of(target))[broker.name][topic]
        assert (there.read_queues, there.write_queues, there.perm) == (3, 3, 6)
        async with connected(target) as client:
            assert (await read_groups(client.master(broker.name))).groups[group]["retryMaxTimes"] == 7
    rest = await java_consume(target.namesrv, topic, group=group, count=len(wanted) - len(first), idle=20)
    keys = [[read.properties["KEYS"] for read in reads] for reads in (first, rest)]
    assert sorted(keys[0] + keys[1]) == wanted, keys
