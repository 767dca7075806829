"""Producers of gRPC clients switch sites with their consumers: topics accept there what they accept here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.e2e.test_pop_consumers import ALL, short, switched
from tests.support.clusters import ClusterPool
from tests.support.grpctool import grpc_consume, grpc_produce, judge_exact
from tests.support.javatool import JavaToolError
from tests.support.offsets import make_group
from tests.support.traffic import create_topic, raw_topic, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker

pytestmark = pytest.mark.timeout(300)

EAST = ClusterSpec(name="east", version="5.3.3", proxy=True)
WEST = ClusterSpec(name="west", version="5.5.0", proxy=True)


@pytest.mark.parametrize(("kind", "other"), [("NORMAL", "fifo"), ("FIFO", "normal")])
async def test_the_type_of_a_topic_holds_at_the_target(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], kind: str, other: str
) -> None:
    """Messages of the topic's type are sent to the target's Proxy and consumed; of others it tells the client that
    the topic does not accept them.
    """
    topic, group = topic_name("t"), short(topic_name("g"))
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2, attributes={"message.type": kind})
    await make_group(source, group, consumeMessageOrderly=kind == "FIFO")
    await grpc_produce(source.proxy.address, topic, ALL, type_=kind.lower())
    before = await grpc_consume(source.proxy.address, topic, group, count=ALL)
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        await switched(worker, topic, 0)
    assert (await topics_of(target))["west-a"][topic].attributes == {"message.type": kind}
    await grpc_produce(target.proxy.address, topic, ALL, start=ALL, type_=kind.lower())
    with pytest.raises(JavaToolError, match="not match with topic accept message types"):
        await grpc_produce(target.proxy.address, topic, 1, start=2 * ALL, type_=other)
    assert sum(map(len, (await raw_topic(target, topic)).values())) == 2 * ALL
    after = await grpc_consume(target.proxy.address, topic, group)
    judge_exact(before, after, {str(i) for i in range(2 * ALL)})
