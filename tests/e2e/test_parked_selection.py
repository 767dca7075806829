"""What `sql` selects of waiting messages is parked, and released when the site is lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.client.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from replicator.sandbox import ClusterSpec
from tests.e2e.test_parked_messages import FLAGS, arrived, lose_the_site
from tests.support.clusters import ClusterPool
from tests.support.javatool import Order, java_produce
from tests.support.readiness import asked, ready
from tests.support.traffic import create_topic
from tests.support.waiting import recall
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_what_sql_selects(
    version: str, clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The broker filters what waits, too, but for what recalls one of them."""
    topic, target = topic_name("t"), await clusters.get(ClusterSpec(name="west", version="5.5.0"))
    timers = version != "4.9.7"
    async with clusters.fresh(ClusterSpec(name="east", version=version)) as source:
        await create_topic(source, topic, queues=2)
        flags = ("--topics", topic, "--sql", "n BETWEEN 3 AND 6", *FLAGS)
        async with Worker(source, target, tmp_path / "old", *flags) as old:
            await ready(old)
            due = round(time.time() * 1000) + 40_000
            kinds = ["delay", "timer"] if timers else ["delay"]
            orders = [
                Order(
                    topic=topic,
                    body=f"{kind} {n}".encode(),
                    properties={"n": str(n)},
                    level=4 if kind == "delay" else None,
                    deliver_ms=due if kind == "timer" else None,
                )
                for kind in kinds
                for n in range(10)
            ]
            sent = await java_produce(source.namesrv, orders)
            if timers:
                await recall(source, topic, [sent[15].msg_id], deliver_ms=due)
            counts = {SCHEDULE_TOPIC: 4} | ({TIMER_TOPIC: 5} if timers else {})
            await lose_the_site(source, target, old, topic, counts)
        async with Worker(source, target, tmp_path / "new", *flags) as new:
            await until(lambda: new.ask("GET", "/connectors/route/status")[0] == 200, what="the route is known")
            report = await asked(new, "POST", "failover", {"source_dead": True})
            assert (report["released"]["recalled"], report["released"]["not_released"]) == (int(timers), []), report
            wanted = {f"{kind} {n}" for kind in kinds for n in range(3, 7)} - {"timer 5"}

            async def all_there() -> bool:
                return (await arrived(target, topic)).keys() >= wanted

            await until(all_there, what="all that is selected", seconds=90)
            await asyncio.sleep(2)
            assert await arrived(target, topic) == Counter(wanted)
