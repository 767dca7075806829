"""Bodies that a route compresses come out of official clients as they went in; no check takes them for others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator.protocol.compression import SYS_FLAGS, CompressionType
from replicator.protocol.message import COMPRESSION, StoredMessage
from replicator.ranges.access import Access
from replicator.ranges.comparer import CompareJob, compare
from replicator.ranges.copier import copy_range
from replicator.ranges.copy_job import CopyJob, Range
from replicator.routing.body_compression import BodyCompression
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from replicator.sandbox import ClusterSpec
from tests.e2e.test_audit import verified
from tests.support.clusters import ClusterPool
from tests.support.grpctool import grpc_consume
from tests.support.javatool import Order, java_produce, java_read_topic
from tests.support.offsets import make_group
from tests.support.pyclient import PyClientError, PyConsumer
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, raw_topic, send
from tests.support.worker import Worker, until

#: A body that the default takes, one that it leaves, and how many there are of each.
LONG, SHORT, EACH = b"compress me " * 500, b"as it is " * 20, 40
LONG_TEXT = LONG.decode()
SIDES = Identity("east", "west")


async def stored_at_target(route: Scene) -> list[StoredMessage]:
    (stored,) = (await raw_topic(route.target, route.topic)).values()
    return stored


@pytest.mark.parametrize(
    ("kind", "flags", "version"), [("zlib", 0x001, "4.9.7"), ("zstd", 0x201, "5.1.4"), ("zstd", 0x201, "5.5.0")]
)
async def test_long_bodies_take_less_and_stay_what_they_are(
    scene: SceneOf, kind: str, flags: int, version: str
) -> None:
    """Also where that is set while it copies; those that their producers have compressed stay as they are."""
    async with scene(queues=1, target=ClusterSpec(name="west", version=version)) as route:
        orders = [Order(topic=route.topic, body=body, keys="k") for body in (LONG, SHORT) for _ in range(EACH)]
        await java_produce(route.source.namesrv, orders)
        await java_produce(route.source.namesrv, orders[:1], compress="lz4")
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 2 * EACH + 1)
            assert {m.sys_flag & COMPRESSION for m in (await stored_at_target(route))[:-1]} == {0}
            config = worker.ask("GET", "/connectors/route/config")[1]
            assert worker.ask("PUT", "/connectors/route", {**config, "compression_type": kind})[0] == 200
            await until(lambda: worker.ask("GET", "/connectors/route/config")[1]["compression_type"] == kind)
            await java_produce(route.source.namesrv, orders)
            await java_produce(route.source.namesrv, orders[:1], compress="lz4")
            await worker.caught_up(route.topic, 4 * EACH + 2)
            await until(lambda: verified(worker, route.topic), what="all is verified")
            assert worker.metric("audit_differences_total") == 0
        stored = (await stored_at_target(route))[2 * EACH + 1 :]
        assert [m.sys_flag & COMPRESSION for m in stored] == [flags] * EACH + [0] * EACH + [0x101]
        assert max(m.body_length for m in stored[:EACH]) < len(LONG) / 20
        read = await java_read_topic(route.target.namesrv, route.topic)
        assert [message.body for message in read] == [order.body for order in (*orders, orders[0])] * 2
        await nothing_differs(route)


def part_of(route: Scene, count: int) -> tuple[dict[str, Any], Range]:
    """Both clusters, and all of the queue."""
    sides = {name: Access(namesrv=(getattr(route, name).namesrv,)) for name in ("source", "target")}
    here, there = (Queue(cluster.brokers[0].name, 0) for cluster in (route.source, route.target))
    return sides, Range(route.topic, here, route.topic, there, 0, count)


async def nothing_differs(route: Scene) -> None:
    """Whatever the route was set to when it copied, and is set to now."""
    count = 4 * EACH + 2
    sides, part = part_of(route, count)
    outcome = await compare(CompareJob(**sides, options=RouteOptions(identity=SIDES), complete=True), part)
    assert (outcome.counts, outcome.error, outcome.copies) == ({}, "", count)


async def test_tasks_of_spark_compress_too(scene: SceneOf) -> None:
    """What a backfill copies is what a route copies."""
    async with scene(queues=1) as route:
        async with connected(route.source) as client:
            broker = route.source.brokers[0].name
            await send(client, broker, route.topic, 0, [(LONG, {"KEYS": str(i)}) for i in range(EACH)])
        await create_topic(route.target, route.topic, queues=1)
        sides, part = part_of(route, EACH)
        options = RouteOptions(identity=SIDES, compression=BodyCompression("zstd", 4096), settle_timeout=0.0)
        job: CopyJob = pickle.loads(
            pickle.dumps(CopyJob(**sides, options=options, memory_bytes=8 * 1024**2))
        )  # as it gets to a task
        assert (await copy_range(job, part)).copied == EACH
        assert {m.sys_flag & COMPRESSION for m in await stored_at_target(route)} == {SYS_FLAGS["zstd"]}


@pytest.mark.parametrize("kind", ["zlib", "zstd"])
async def test_clients_that_are_not_java_or_not_remoting(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], kind: CompressionType
) -> None:
    """Those for gRPC read both, since the Proxy decompresses; the one for Python, which is C++, ends at zstd."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.5.0", proxy=True)
    )
    topic, group = topic_name("t"), topic_name("g")
    await create_topic(source, topic, queues=1, attributes={"message.type": "NORMAL"})
    async with connected(source) as client:
        await send(client, "east-a", topic, 0, [(LONG, {"KEYS": str(i)}) for i in range(EACH)])
    flags = ("--topics", topic, "--compression-type", kind)
    async with Worker(source, target, tmp_path, *flags) as worker:
        await worker.caught_up(topic, EACH)
    (stored,) = (await raw_topic(target, topic)).values()
    assert {message.sys_flag & COMPRESSION for message in stored} == {SYS_FLAGS[kind]}
    await make_group(target, group)
    got = await grpc_consume(target.proxy.address, topic, group, count=EACH)
    assert [each.body for each in got] == [LONG_TEXT] * EACH
    if kind == "zlib":
        async with PyConsumer(target.namesrv, topic, group=topic_name("p")) as consumer:
            received = await consumer.take(EACH)
        assert [each.body for each in received] == [LONG_TEXT] * EACH
        return
    with pytest.raises(PyClientError, match="zlib error"):
        async with PyConsumer(target.namesrv, topic, group=topic_name("p")) as consumer:
            await consumer.take(1)
