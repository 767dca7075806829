"""Sink tasks send over the VIP port, and over the listen port only where that one cannot be reached."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.frames import Frame
from tests.support.proxy import BrokerProxies
from tests.support.scene import SceneOf
from tests.support.sockets import unread
from tests.support.traffic import create_topic, judge, produce
from tests.support.worker import Worker, until

pytestmark = pytest.mark.side_by_side("proxied")

SOURCE = ClusterSpec(name="east", version="5.3.3")
SEND_BATCH, PULL, CREATE_TOPIC = 320, 11, 17


@pytest.mark.parametrize("version", ["5.1.4", "5.3.3", "5.5.0"])
async def test_what_crosses_which_port(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], version: str
) -> None:
    """Seen on the sockets: sends and admin on port - 2, pulls (the target's tail) on the listen port."""
    seen: Counter[tuple[str, int]] = Counter()

    def on_frame(port: str, frame: Frame) -> None:
        if not frame.answer:
            seen[port, frame.code] += 1

    source, target = await clusters.pair(
        SOURCE, ClusterSpec(name="proxied", version=version, broker_ip="127.0.0.2")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 1000)
    async with BrokerProxies(("127.0.0.2", target.brokers[0].port), on_frame=on_frame):
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 1000)
        assert seen["vip", SEND_BATCH] >= 2
        assert seen["vip", CREATE_TOPIC] >= 1
        assert seen["main", PULL] >= 1
        assert not [count for (port, code), count in seen.items() if port == "main" and code == SEND_BATCH]
        assert not [count for (port, code), count in seen.items() if port == "vip" and code == PULL]


async def test_a_blocked_vip_port_is_said_and_worked_around(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """As behind a firewall that lets only the listen port through; back to VIP when that one opens."""
    source, target = await clusters.pair(
        SOURCE, ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 500)
    async with BrokerProxies(("127.0.0.2", target.brokers[0].port), frames=True) as proxies:
        proxies.vip.refuse()
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 500)
            assert worker.log.count("the VIP port cannot be reached; the listen port is used") == 1
            proxies.vip.accept()
            before, sent = proxies.vip.bytes_up, itertools.count(500, 10)

            async def is_back() -> bool:
                await produce(source, topic, 10, start=next(sent))
                return proxies.vip.bytes_up > before + 10_000

            await until(is_back)
            await worker.caught_up(topic, next(sent))
            assert worker.log.count("the VIP port cannot be reached; the listen port is used") == 1
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


async def test_a_vip_port_that_goes_away_while_a_route_runs(clusters: ClusterPool, scene: SceneOf) -> None:
    """Its connections end and nothing listens there any more: the listen port serves, and it is said once."""
    spec = ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2")
    listening: Counter[int] = Counter()

    def on_frame(port: str, frame: Frame) -> None:
        if port == "main" and not frame.answer:
            listening[frame.code] += 1

    async with scene(target=spec, queues=2) as route:
        broker = ("127.0.0.2", route.target.brokers[0].port)
        async with (
            BrokerProxies(broker, on_frame=on_frame) as proxies,
            route.worker() as worker,
            route.producer(per_second=1000) as producer,
        ):
            await until(lambda: worker.has_copied(route.topic, 500))
            assert not listening[SEND_BATCH]
            await proxies.vip.close()
            await until(lambda: listening[SEND_BATCH] > 20)
            await producer.finish()
            await worker.caught_up(route.topic, 0)
            assert worker.log.count("the VIP port cannot be reached; the listen port is used") == 1
            await route.assert_clean(producer.acknowledged)


async def test_sends_to_4_9_wait_at_the_vip_port(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """No proxy fits before such a broker: what it has not read while it is paused tells the port."""
    source = await clusters.get(SOURCE)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 500)
    async with clusters.lent(ClusterSpec(name="west", version="4.9.7")) as target:
        broker = target.brokers[0]
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, 500)
            broker.pause()
            await produce(source, topic, 20, start=500, size=50_000)  # one of them may be all that is sent
            await until(lambda: unread(broker.pid, broker.vip_port) > 30_000)
            assert unread(broker.pid, broker.port) < 10_000
            broker.resume()
            await worker.caught_up(topic, 520)
            assert "the VIP port cannot be reached" not in worker.log
        verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
