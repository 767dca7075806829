"""What is under way at a time: pulls, the messages of a batch, the memory of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from replicator.routing.packing import STORED_MORE
from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.frames import Frame
from tests.support.proxy import BrokerProxies
from tests.support.scene import SceneOf
from tests.support.worker import until

pytestmark = pytest.mark.side_by_side("proxied")

SOURCE = ClusterSpec(name="proxied", version="5.5.0", broker_ip="127.0.0.2")
TARGET = ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2")
#: Seconds that each way to either cluster takes.
DELAY = 0.05
PULL, SEND_BATCH = 11, 320
#: Messages that a broker gives in one pull by default, at most; of 1,000 bytes and their properties: bytes.
ONE_PULL, ONE_ANSWER = 32, 48 * 1024


class _Pulls:
    """Counts the pulls whose answers have not come yet."""

    def __init__(self) -> None:
        self.most = 0
        self._open: set[int] = set()

    def see(self, port: str, frame: Frame) -> None:
        assert port == "main" or frame.code != PULL
        if frame.answer:
            self._open.discard(frame.opaque)
        elif frame.code == PULL:
            self._open.add(frame.opaque)
            self.most = max(self.most, len(self._open))


class _Batches:
    """How many messages each batch has, and how many bytes they may be stored as."""

    def __init__(self, topic: str) -> None:
        self.counts: list[int] = []
        self.sizes: list[int] = []
        self._more = STORED_MORE + len(topic)

    def see(self, _port: str, frame: Frame) -> None:
        if frame.code == SEND_BATCH and not frame.answer:
            count = len(list(_entries(frame.body)))
            self.counts.append(count)
            self.sizes.append(len(frame.body) + count * self._more)


def _entries(body: bytes) -> Iterator[bytes]:
    while body:
        size = int.from_bytes(body[:4], "big")
        yield body[:size]
        body = body[size:]


@pytest.mark.parametrize(
    ("flags", "most_pulls", "most_messages", "most_bytes"),
    [
        (("--pulls-in-flight", "8", "--batch-messages", "200"), 8, 200, 1024**2),
        (("--pulls-in-flight", "6", "--batch-bytes", "64KiB"), 6, 1024, 64 * 1024),
    ],
    ids=["few messages", "few bytes"],
)
async def test_a_queue_far_away(
    clusters: ClusterPool,
    scene: SceneOf,
    topic_name: Callable[[str], str],
    flags: tuple[str, ...],
    most_pulls: int,
    most_messages: int,
    most_bytes: int,
) -> None:
    """Its pulls do not wait for each other, its batches become larger than what one of them brings: both up to
    their limits, and in order.
    """
    pulls, batches = _Pulls(), _Batches(topic_name("t"))
    source, target = await clusters.pair(SOURCE, TARGET)
    here, there = (("127.0.0.2", cluster.brokers[0].port) for cluster in (source, target))
    async with (
        BrokerProxies(here, on_frame=pulls.see) as near_source,
        BrokerProxies(there, on_frame=batches.see) as near_target,
        scene(source=source, target=target, queues=1) as route,
    ):
        await route.produce(6000)
        for proxy in (*near_source.both, *near_target.both):
            proxy.delay = DELAY
        # Alone, so that all pulls are of the topic.
        async with route.worker("--standalone", "--source-id", "far", *flags) as worker:
            await worker.caught_up(route.topic, 6000)
        for proxy in (*near_source.both, *near_target.both):
            proxy.delay = 0.0
        most = pulls.most
        await route.assert_clean(6000)
    assert most == most_pulls
    assert sum(batches.counts) == 6000
    assert ONE_PULL < max(batches.counts) <= most_messages
    assert max(batches.sizes) <= most_bytes
    # What one more pull brings would have been too much.
    count, size = max(batches.counts) + ONE_PULL, max(batches.sizes) * (1 + ONE_PULL / max(batches.counts))
    assert count > most_messages or size > most_bytes


async def test_memory_while_the_target_stands_still(clusters: ClusterPool, scene: SceneOf) -> None:
    """It fills up to its limit and no further than by one answer a queue; all goes on when the target does."""
    limit, queues, size = 2 * 1024**2, 4, 1000
    target = await clusters.get(TARGET)
    async with (
        BrokerProxies(("127.0.0.2", target.brokers[0].port)) as network,
        scene(target=target, queues=queues) as route,
    ):
        await route.produce(1000, size=size)
        async with route.worker("--memory-bytes", str(limit)) as worker:
            await worker.caught_up(route.topic, 1000)
            network.vip.stall()
            await route.produce(8000, start=1000, size=size)
            assert worker.metric("buffer_limit_bytes") == limit
            seen: list[float] = []

            def full() -> bool:
                seen.append(worker.metric("buffer_used_bytes"))
                return len(seen) > 10 and limit / 2 < seen[-1] == seen[-10]

            await until(full)
            assert max(seen) <= limit + queues * ONE_ANSWER
            assert worker.topic(route.topic)["copied"] == 1000
            network.vip.resume()
            await worker.caught_up(route.topic, 9000)
            await until(lambda: worker.metric("buffer_used_bytes") == 0)
        await route.assert_clean(9000)
