"""Whatever dies on the way: nothing lost, nothing twice, order kept."""

from __future__ import annotations

import asyncio
import random
import signal
from functools import partial

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.proxy import BrokerProxies
from tests.support.scene import TARGET, SceneOf
from tests.support.traffic import connected, send
from tests.support.worker import until

pytestmark = pytest.mark.timeout(600)

WIDE = ClusterSpec(name="wide", brokers=2)
EAST_2 = ClusterSpec(name="east", version="5.3.3", brokers=2)
PROXIED = ClusterSpec(name="proxied", version="5.5.0", broker_ip="127.0.0.2")
# 4.9 does not say in its first seconds how far its queues are behind what it has stored.
OLD = ClusterSpec(name="west", version="4.9.7")


@pytest.mark.side_by_side("test_route")
@pytest.mark.parametrize(
    ("source_version", "target_version", "keep_store", "seed"),
    [("4.9.7", "5.5.0", True, 11), ("5.5.0", "4.9.7", False, 19)],
    ids=["with its store", "with an empty disk"],
)
async def test_kill_9_at_random_moments_under_load(
    scene: SceneOf, source_version: str, target_version: str, keep_store: bool, seed: int
) -> None:
    """Ten times each: started again at once, with the state files; and without, alone, from what the target has.

    State files are saved each second and published each two: most moments lie before that, some well behind.
    """
    source, target = (
        ClusterSpec(name="east", version=source_version),
        ClusterSpec(name="west", version=target_version),
    )
    async with scene(source=source, target=target) as route:
        dice = random.Random(seed)
        killed_in_mid_flow = 0
        alone = () if keep_store else ("--standalone",)
        async with route.producer(per_second=3000) as producer:
            for turn in range(10):
                worker = route.worker("--settle-timeout", "0.5", *alone, at="same" if keep_store else str(turn))
                async with worker:  # and killed at the end of it
                    await until(partial(worker.has_copied, route.topic, 1), what="the first copies")
                    await asyncio.sleep(3.0 * dice.random() ** 3)
                    killed_in_mid_flow += worker.topic(route.topic)["copied"] > 0
        assert killed_in_mid_flow == 10
        async with route.worker("--settle-timeout", "1", *alone, at="same") as worker:
            await until(lambda: worker.topic(route.topic).get("state") == "RUNNING")
            await worker.caught_up(route.topic, 0)
            assert worker.topic(route.topic)["duplicates"] == 0
            assert await worker.drain() == 0
        await route.assert_clean(producer.acknowledged)


@pytest.mark.side_by_side("proxied")
async def test_answers_lost_on_the_way(scene: SceneOf) -> None:
    """The broker stored the batch, its answer never came: the target's tail tells, nothing is sent twice."""
    async with scene(target=PROXIED, queues=2) as route:
        topic = route.topic
        async with BrokerProxies(("127.0.0.2", route.target.brokers[0].port), frames=True) as proxies:
            await route.produce(2000)
            swallow = proxies.vip.drop_answers(lambda frame: frame.code == 320, times=2)
            async with route.worker() as worker:
                await until(lambda: len(swallow.swallowed) == 2)
                assert worker.topic(topic)["copied"] < 2000
                await until(lambda: worker.topic(topic)["state"] == "RECOVERING")
                await worker.caught_up(topic, 0)
                await route.produce(1000, start=2000)
                await worker.caught_up(topic, 1000)
                assert worker.topic(topic)["duplicates"] == 0
            await route.assert_clean(3000)


async def test_target_broker_killed_and_started_again_under_load(scene: SceneOf) -> None:
    """No hand needed: it goes on by itself, and soon."""
    async with scene(target=OLD, mistreated=(OLD,)) as route:
        topic, broker = route.topic, route.target.brokers[0]
        async with route.worker() as worker:
            async with route.producer() as producer:
                for _ in range(2):
                    before = worker.topic(topic).get("copied", 0)
                    await until(partial(worker.has_copied, topic, before + 1000))
                    await broker.kill()
                    await until(lambda: worker.topic(topic)["state"] in ("WAITING", "RECOVERING"), seconds=30)
                    await broker.start()
                    await until(lambda: worker.topic(topic)["state"] == "RUNNING", seconds=40)
            await worker.caught_up(topic, 0)
            assert await worker.drain() == 0
        await route.assert_clean(producer.acknowledged)


@pytest.mark.side_by_side("wide")
@pytest.mark.parametrize("side", ["source", "target"])
async def test_one_of_two_brokers_killed_and_started_again(scene: SceneOf, side: str) -> None:
    """Its queues wait for it; what comes for the other broker's meanwhile is copied meanwhile."""
    async with scene(source=EAST_2, target=WIDE, mistreated=(EAST_2, WIDE), queues=2) as route:
        topic = route.topic
        dead, alive = (route.source if side == "source" else route.target).brokers
        await route.produce(4000)
        async with route.worker() as worker:
            await worker.caught_up(topic, 4000)
            read_at = {q[side]["broker"]: q["source"]["broker"] for q in worker.queues(topic)}
            assert set(read_at) == {dead.name, alive.name}
            await dead.kill()

            def its_queues_wait() -> bool:
                states = {(q[side]["broker"], q["state"]) for q in worker.queues(topic)}
                return states == {(dead.name, "WAITING"), (alive.name, "RUNNING")}

            async with connected(route.source) as client:
                if side == "target":  # that it is away is seen by who has something to send
                    for queue_id in range(2):
                        await send(client, read_at[dead.name], topic, queue_id, [(b"for the dead one", {})] * 10)
                await until(its_queues_wait, seconds=40)
                for _ in range(40):
                    await send(client, read_at[alive.name], topic, 0, [(b"for the living one", {})] * 100)
                await until(partial(worker.has_copied, topic, 8000, in_all=True))
            assert its_queues_wait()
            await dead.start()
            await until(lambda: worker.topic(topic)["state"] == "RUNNING", seconds=40)
            assert "no longer waiting" in worker.log
            await route.produce(1000, start=4000)
            await worker.caught_up(topic, 9000 if side == "source" else 9020, in_all=True)
        await route.assert_clean()


async def test_target_broker_paused_longer_than_the_time_limit(scene: SceneOf) -> None:
    """Requests that waited inside the paused broker are stored when it wakes up: they are found there."""
    async with scene(mistreated=(TARGET,)) as route:
        topic = route.topic
        async with route.worker("--settle-timeout", "1") as worker:
            async with route.producer():
                await until(lambda: worker.topic(topic).get("copied", 0) > 1000)
                route.target.brokers[0].pause()
                await until(lambda: "did not answer SEND_BATCH_MESSAGE (320) within 10 s" in worker.log)
                await until(lambda: "RUNNING" not in {q["state"] for q in worker.queues(topic)})
                route.target.brokers[0].resume()
            await worker.caught_up(topic, 0)
            await until(lambda: worker.topic(topic)["state"] == "RUNNING", seconds=40)
            await worker.caught_up(topic, 0)
        await route.assert_clean()


async def test_a_target_that_does_not_answer_cuts_the_drain(scene: SceneOf) -> None:
    """Within its limit, and the exit code says so; the next start finds out what was stored."""
    async with scene(mistreated=(TARGET,)) as route:
        flags = ("--drain-timeout", "1", "--settle-timeout", "1")
        async with route.producer(), route.worker(*flags) as worker:
            await until(partial(worker.has_copied, route.topic, 500))
            route.target.brokers[0].pause()
            try:
                await until(lambda: all(q["lag_messages"] > 50 for q in worker.queues(route.topic)))
                assert await worker.drain() == 4
                assert "stopped before everything was drained" in worker.log
            finally:
                route.target.brokers[0].resume()
        async with route.worker(*flags) as worker:
            await until(lambda: worker.topic(route.topic).get("state") == "RUNNING")
            await worker.caught_up(route.topic, 0)
        await route.assert_clean()


async def test_drained_by_sigterm_nothing_is_read_again(scene: SceneOf) -> None:
    """Under load; exit code 0, and the next start goes on without a pause for settling."""
    async with scene() as route:
        async with route.producer(per_second=800):
            for _ in range(3):
                async with route.worker("--settle-timeout", "0") as worker:
                    await until(partial(worker.has_copied, route.topic, 500))
                    assert await worker.drain() == 0
        async with route.worker() as worker:
            await until(lambda: worker.topic(route.topic).get("state") == "RUNNING")
            await worker.caught_up(route.topic, 0)
        await route.assert_clean()


async def test_a_second_signal_ends_it_at_once(scene: SceneOf) -> None:
    """While the target does not answer, the first SIGINT waits for it; the second does not."""
    async with scene(mistreated=(TARGET,), queues=1) as route:
        topic = route.topic
        async with route.producer(), route.worker() as worker:
            await until(lambda: worker.topic(topic).get("copied", 0) > 500)
            route.target.brokers[0].pause()
            await until(lambda: worker.topic(topic)["lag_messages"] > 500)
            worker.signal(signal.SIGINT)
            await until(lambda: "draining" in worker.log)
            worker.signal(signal.SIGINT)
            assert await worker.wait() == 130
            route.target.brokers[0].resume()
