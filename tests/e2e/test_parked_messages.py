"""Messages that wait in the source's brokers are parked at the target, and released there at a failover."""

from __future__ import annotations

import time

import pytest

from replicator.client.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from replicator.protocol import properties
from replicator.routing.parked import DUE, parked_topics
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.scene import SceneOf
from tests.support.traffic import create_topic, raw_topic
from tests.support.waiting import recall, send_waiting
from tests.support.worker import until

pytestmark = pytest.mark.timeout(300)

PARKED = parked_topics("east", "route")


async def parked(cluster: Cluster, topic: str) -> dict[str, int]:
    """When each message of a system topic's parked ones is due (ms), by its body."""
    found = {}
    for messages in (await raw_topic(cluster, PARKED[topic])).values():
        for message in messages:
            found[message.content.decode()] = int(properties.find(message.properties, DUE) or 0)
    return found


@pytest.mark.parametrize(("version", "target"), [("4.9.7", "5.5.0"), ("5.3.3", "5.3.3"), ("5.5.0", "4.9.7")])
async def test_waiting_messages_are_parked(version: str, target: str, scene: SceneOf) -> None:
    """Those of the route's topics that are not delivered yet, with their due times; once, though started twice."""
    timers = version != "4.9.7"
    source = ClusterSpec(name="east", version=version)
    async with scene(source=source, target=ClusterSpec(name="west", version=target), queues=2) as route:
        await create_topic(route.source, f"{route.topic}-other", queues=2)
        await send_waiting(route.source, route.topic, ["over"], level=1)
        await send_waiting(route.source, f"{route.topic}-other", ["other"], level=18)
        await send_waiting(route.source, route.topic, ["2 h"], level=18)

        async def delivered() -> bool:
            return sum(map(len, (await raw_topic(route.source, route.topic)).values())) == 1

        await until(delivered, what="the first one is delivered")
        at = round(time.time() * 1000)
        async with route.worker("--sync", "pending") as worker:
            await send_waiting(route.source, route.topic, ["1 m"], level=5)
            if timers:
                due = at + 3_600_000
                keys = await send_waiting(route.source, route.topic, ["timer", "recalled"], deliver_ms=due)
                await recall(route.source, route.topic, [keys["recalled"]], deliver_ms=due)
            names = {"2 h": 7_200_000, "1 m": 60_000}

            async def all_parked() -> bool:
                there = await parked(route.target, TIMER_TOPIC) if timers else {}
                return len(await parked(route.target, SCHEDULE_TOPIC)) >= 2 and len(there) >= 3 * timers

            await until(all_parked, what="all are parked")
            await worker.drain()
        async with route.worker("--sync", "pending") as worker:
            await worker.caught_up(route.topic, 1)
            found = await parked(route.target, SCHEDULE_TOPIC)
            assert found.keys() == names.keys()
            assert all(abs(found[name] - at - names[name]) < 30_000 for name in names)
            if timers:
                assert (await parked(route.target, TIMER_TOPIC)).keys() == {"timer", "recalled", "0"}
            assert sum(map(len, (await raw_topic(route.target, PARKED[SCHEDULE_TOPIC])).values())) == 2
