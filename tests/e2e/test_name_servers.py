"""Name servers that know no broker or are dead: one of two, all of a side, those of brokers that start later."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from replicator.sandbox import ClusterSpec
from tests.support import scene as usual
from tests.support.clusters import ClusterPool
from tests.support.proxy import BrokerProxies
from tests.support.readiness import asked
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, judge, produce
from tests.support.worker import Worker, until


@pytest.mark.parametrize(("side", "version"), [("source", "4.9.7"), ("target", "5.5.0")])
async def test_one_of_two_name_servers_dies_and_comes_back_empty(
    scene: SceneOf, topic_name: Callable[[str], str], side: str, version: str
) -> None:
    """A route goes on and sees what is new; a worker starts while the first name server knows nobody yet."""
    twice = ClusterSpec(name="served", version=version, name_servers=2)
    source, target = (twice, usual.TARGET) if side == "source" else (usual.SOURCE, twice)
    async with scene(source=source, target=target, mistreated=(twice,)) as route:
        cluster = route.source if side == "source" else route.target
        (broker,) = cluster.brokers
        first, other = cluster.nameservers
        late = topic_name("late")
        flags = ("--topics", f"{route.topic},{late}")
        async with route.worker(*flags) as worker, route.producer(per_second=500) as producer:
            await until(lambda: worker.running == [route.topic])
            await first.kill()
            await create_topic(route.source, late, queues=2)
            await produce(route.source, late, 100)
            await until(lambda: worker.has_copied(late, 100))

            await first.start()
            await until(lambda: first.lists(broker.address), what="told of the broker")
            await first.kill()
            await first.start()
            while await first.lists(broker.address):  # it is told every ten seconds, and that was in this moment
                await first.kill()
                await first.start()
            async with route.worker(*flags, at="second") as second:
                await until(lambda: second.running)
                await until(lambda: first.lists(broker.address))
                await other.kill()
                await produce(route.source, late, 100, start=100)
                await producer.finish()
                assert await second.drain() == 0
            await until(lambda: len(worker.queues(route.topic)) == 4 and len(worker.queues(late)) == 2)
            await worker.caught_up(route.topic, 0)
            await worker.caught_up(late, 0)
        await route.assert_clean(producer.acknowledged)
        verdict = await judge(route.source, route.target, late)
        assert verdict.clean, verdict.report()
        assert verdict.copies == 200


@pytest.mark.parametrize("side", ["source", "target"])
async def test_all_name_servers_of_a_side_are_dead(scene: SceneOf, side: str) -> None:
    """Copying goes on; readiness, a dry run and a failover say the same of it, until one is back."""
    alone = ClusterSpec(name="served", version="5.3.3")
    source, target = (alone, usual.TARGET) if side == "source" else (usual.SOURCE, alone)
    async with scene(source=source, target=target, mistreated=(alone,)) as route:
        (nameserver,) = (route.source if side == "source" else route.target).nameservers
        async with route.worker() as worker, route.producer(per_second=50) as producer:
            await until(lambda: worker.has_copied(route.topic, 20))
            await nameserver.kill()
            what = f"the brokers of the {side} cannot be looked up: "
            why = f"{what}{nameserver.address} cannot be reached"
            await until(lambda: said(ready(worker)["reasons"], why), seconds=10)
            before = int(worker.topic(route.topic)["copied"])
            await until(lambda: worker.has_copied(route.topic, before + 100), what="copying goes on")
            dry = await asked(worker, "POST", "failover", {"dry_run": True})
            assert said(dry["problems"], why), dry["problems"]
            await nameserver.start()
            await until(lambda: not said(ready(worker)["reasons"], what), what="its brokers have registered")
            await producer.finish()
            assert await worker.drain() == 0
        await route.assert_clean(producer.acknowledged)


def said(reasons: list[str], why: str) -> bool:
    return any(reason.startswith(why) for reason in reasons)


def ready(worker: Worker) -> dict[str, Any]:
    found: dict[str, Any] = worker.ask("GET", "/connectors/route/readiness")[1]
    return found


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_worker_waits_for_the_first_broker(scene: SceneOf, side: str) -> None:
    """It says for what, ends with 0 when asked to, and copies once the broker has registered."""
    alone = ClusterSpec(name="waited", version="5.3.3")
    source, target = (alone, usual.TARGET) if side == "source" else (usual.SOURCE, alone)
    async with scene(source=source, target=target, mistreated=(alone,)) as route:
        cluster = route.source if side == "source" else route.target
        await route.produce(100)
        (broker,), (nameserver,) = cluster.brokers, cluster.nameservers
        await broker.stop()
        await nameserver.kill()
        await nameserver.start()
        worker = route.worker("--topics", route.topic)
        try:
            await worker.start(ready=False)
            reason = f"no broker is registered at name server {nameserver.address}"
            await until(lambda: reason in worker.log, what="it says what it waits for")
            worker.signal(signal.SIGTERM)
            assert await worker.wait() == 0
            assert "stopped before it had started" in worker.log

            await worker.start(ready=False)
            await until(lambda: worker.log.count("waiting for a broker to register") == 2)
            await broker.start()
            await worker.served()
            await worker.caught_up(route.topic, 100)
            assert await worker.drain() == 0
        finally:
            await worker.kill()
        await route.assert_clean(100)


async def test_a_worker_that_has_run_waits_for_its_target(clusters: ClusterPool, scene: SceneOf) -> None:
    """A new one ends, since the address may be wrong: it says which broker does not answer."""
    target = await clusters.get(ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2"))
    (broker,) = target.brokers
    async with BrokerProxies(("127.0.0.2", broker.port)) as network, scene(target=target) as route:
        await route.produce(100)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 100)
            assert await worker.drain() == 0
            for proxy in network.both:
                proxy.refuse()
            await route.produce(100, start=100)

            new = route.worker(at="new")
            await new.start(ready=False)
            assert await new.wait() == 3
            assert "target broker proxied-a does not list its topics" in new.log

            await worker.start(ready=False)
            await until(lambda: "waiting for brokers to answer" in worker.log)
            for proxy in network.both:
                proxy.accept()
            await worker.served()
            await worker.caught_up(route.topic, 100)
            assert await worker.drain() == 0
        await route.assert_clean(200)
