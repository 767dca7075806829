"""A route whose engine is Spark: what waits at the source is parked by its worker, and released at a failover."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.client.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from replicator.sandbox import ClusterSpec
from tests.e2e.test_parked_messages import FLAGS, are_parked, arrived, lose_the_site
from tests.spark.test_engine import BY_SPARK, began
from tests.support.clusters import ClusterPool
from tests.support.packages import CONCEAL, install
from tests.support.readiness import asked, health
from tests.support.scene import SceneOf
from tests.support.traffic import connected, create_topic, raw_topic, send
from tests.support.waiting import send_waiting
from tests.support.worker import Worker, until

pytestmark = [pytest.mark.timeout(400), pytest.mark.spark]

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.5.0")


async def test_the_site_is_lost(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """What Spark has copied is there once, and so is what the source's brokers held, once it is due."""
    topic, target = topic_name("t"), await clusters.get(WEST)
    flags = ("--topics", topic, *FLAGS, *BY_SPARK)
    async with clusters.fresh(EAST) as source:
        await create_topic(source, topic, queues=2)
        async with Worker(source, target, tmp_path / "old", *flags) as old:
            await until(lambda: began(old) > 0, seconds=90, what="Spark copies")
            async with connected(source) as client:
                await send(client, "east-a", topic, 0, [(b"plain %d" % i, {}) for i in range(100)])
            await old.caught_up(topic, 100)
            copied = await arrived(target, topic)
            assert copied.total() == 100
            due = round(time.time() * 1000) + 40_000
            timers, delays = ([f"{kind} {i}" for i in range(100)] for kind in ("timer", "delay"))
            await send_waiting(source, topic, timers, deliver_ms=due)
            await send_waiting(source, topic, delays, level=4)
            counts = {SCHEDULE_TOPIC: 100, TIMER_TOPIC: 100}
            await lose_the_site(source, target, old, topic, counts)
        wanted = copied + Counter([*timers, *delays])
        async with Worker(source, target, tmp_path / "new", *flags) as new:
            await until(lambda: "the source is away" in health(new)[1].get("worker", ""), what="it stands by")
            await until(lambda: new.ask("GET", "/connectors/route/status")[0] == 200, what="the route is known")
            report = await asked(new, "POST", "failover", {"source_dead": True})
            assert report["released"]["not_released"] == [], report

            async def all_there() -> bool:
                return (await arrived(target, topic)).keys() >= wanted.keys()

            await until(all_there, what="all of them", seconds=90)
            again = (await asked(new, "POST", "failover", {"source_dead": True}))["released"]
            assert again["waiting"] == again["in_timer"] == again["overdue"] == 0, again
            await asyncio.sleep(2)  # within which a message that comes twice would
            assert await arrived(target, topic) == wanted


async def test_what_transforms_make_of_it(scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's tasks and the worker make the same of a message: what was released is not copied from the source."""
    install(tmp_path / "site", "transforms_of_waiting", CONCEAL, "transforms", {"conceal": "Conceal"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    told = {"card": "secret 4711"}
    flags = ("--transforms", "conceal", *FLAGS, *BY_SPARK)
    async with scene(target=WEST, queues=2) as route, route.worker(*flags) as worker:
        await until(lambda: began(worker) > 0, seconds=90, what="Spark copies")
        await send_waiting(route.source, route.topic, ["secret 1", "secret 2", "test"], level=2, told=told)
        due = round(time.time() * 1000) + 15_000
        timers = [f"timer {i}" for i in range(20)]
        await send_waiting(route.source, route.topic, ["test", *timers], deliver_ms=due, told=told)
        copied = ["masked 1", "masked 2"]

        async def first_are_copied() -> bool:
            return await arrived(route.target, route.topic) == Counter(copied)

        await until(first_are_copied, what="Spark has copied what was delivered")
        await until(lambda: are_parked(route.target, route.topic, {TIMER_TOPIC: 20}), what="the others are parked")
        released = (await asked(worker, "POST", "failover", {"drain_timeout": 5}))["released"]
        assert (released["in_timer"], released["delivered"], released["not_released"]) == (20, 2, []), released

        async def both_have_all() -> bool:
            both = [(await arrived(each, route.topic)).keys() for each in (route.source, route.target)]
            return all(there >= {*timers} for there in both)

        await until(both_have_all, what="both deliver them")
        assert worker.ask("PUT", "/connectors/route/resume")[0] == 200
        await send_waiting(route.source, route.topic, ["last 1", "last 2"], level=1, told=told)

        async def last_are_there() -> bool:
            return (await arrived(route.target, route.topic)).keys() >= {"last 1", "last 2"}

        await until(last_are_there, seconds=90, what="the last ones of both queues are copied")
        assert await arrived(route.target, route.topic) == Counter([*copied, *timers, "last 1", "last 2"])
        for messages in (await raw_topic(route.target, route.topic)).values():
            assert not any(b"secret" in message.body + message.properties for message in messages)
