"""Messages that wait in the source's brokers are parked at the target, and released there at a failover."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from replicator.client.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from replicator.protocol import properties
from replicator.routing.parked import parked_topics
from replicator.routing.provenance import DUE
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.acl_scene import MIDDLE, NEW, OLD
from tests.support.clusters import ClusterPool
from tests.support.group import plain
from tests.support.readiness import asked, health, ready
from tests.support.scene import SceneOf
from tests.support.stores import TIMERS
from tests.support.traffic import create_topic, raw_topic
from tests.support.waiting import recall, send_waiting
from tests.support.worker import SYNC_QUICKLY, Worker, group_of_test, signing, until

pytestmark = pytest.mark.timeout(300)

OLD_WEST = ClusterSpec(name="west", version="4.9.7", acl="1.0")


def parked_at(system_topic: str) -> str:
    """Where this test's messages of a system topic of the source are parked."""
    return parked_topics(group_of_test(), "route")[system_topic]


async def parked(cluster: Cluster, topic: str) -> dict[str, int]:
    """When each message of a system topic's parked ones is due (ms), by its body."""
    found = {}
    for messages in (await raw_topic(cluster, parked_at(topic))).values():
        for message in messages:
            found[message.content.decode()] = int(properties.find(message.properties, DUE) or 0)
    return found


@pytest.mark.parametrize(
    ("version", "target", "kept"),
    [("4.9.7", "5.5.0", {}), ("5.3.3", "5.3.3", {}), ("5.5.0", "4.9.7", {}), ("5.5.0", "5.5.0", TIMERS)],
    ids=["4.9.7", "5.3.3", "5.5.0", "timers in RocksDB"],
)
async def test_waiting_messages_are_parked(
    version: str, target: str, kept: Mapping[str, str], scene: SceneOf
) -> None:
    """Those of the route's topics that are not delivered yet, with their due times; once, though started twice."""
    timers = version != "4.9.7"
    source = ClusterSpec(name="east", version=version, properties=kept)
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
            assert sum(map(len, (await raw_topic(route.target, parked_at(SCHEDULE_TOPIC))).values())) == 2


FLAGS = (
    *(*SYNC_QUICKLY[2:], "--sync", "topics,groups,offsets,pending", "--session-timeout", "3"),
    *("--sync-groups", "of-no-other-test"),
)


async def arrived(cluster: Cluster, topic: str) -> Counter[str]:
    """How often each message is there, by its body."""
    return Counter(m.content.decode() for each in (await raw_topic(cluster, topic)).values() for m in each)


async def are_parked(cluster: Cluster, topic: str, counts: dict[str, int]) -> bool:
    """Whether so many messages of each system topic are parked for `topic`."""
    for name, count in counts.items():
        queues = await raw_topic(cluster, parked_at(name))
        if sum(topic.encode() in m.properties for each in queues.values() for m in each) < count:
            return False
    return True


async def is_mirrored(cluster: Cluster, topic: str) -> bool:
    """Whether the target has been told of the copy of `topic`, which comes up to two seconds after its begin."""
    queues = await raw_topic(cluster, "replicator_sys_control")
    told = (plain(message.content) for each in queues.values() for message in each)
    return any('"task"' in each and topic in each for each in told)


async def lose_the_site(
    source: Cluster, target: Cluster, worker: Worker, topic: str, counts: dict[str, int]
) -> None:
    """Kills the worker and the source, once so many messages of `topic` are parked and the target knows of it."""
    await until(lambda: are_parked(target, topic, counts), what="all are parked")
    await until(lambda: is_mirrored(target, topic), what="the target knows of the route's topic")
    await worker.kill()
    for node in source.nodes:
        await node.kill()


async def some_are_released(cluster: Cluster, topic: str) -> bool:
    """Whether some messages of `topic` are in it, or in the timer."""
    if (await arrived(cluster, topic)).total():
        return True
    timers = (await raw_topic(cluster, TIMER_TOPIC)).values()
    return any(topic.encode() in m.properties for each in timers for m in each)


@pytest.mark.parametrize(
    ("version", "target_version", "kept"),
    [("5.3.3", "5.5.0", {}), ("5.3.3", "4.9.7", {}), ("5.3.3", "5.1.4", {}), ("5.5.0", "5.5.0", TIMERS)],
    ids=["5.3.3-5.5.0", "5.3.3-4.9.7", "5.3.3-5.1.4", "timers in RocksDB"],
)
async def test_the_site_is_lost(
    version: str,
    target_version: str,
    kept: Mapping[str, str],
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
) -> None:
    """1,000 delayed and 1,000 timer messages, 100 of them recalled: 1,900 arrive once, though workers are killed.

    It takes as long as the delays, within which all is parked and the site is lost.
    """
    topic = topic_name("t")
    target = await clusters.get(ClusterSpec(name="west", version=target_version))
    async with clusters.fresh(ClusterSpec(name="east", version=version, properties=kept)) as source:
        await create_topic(source, topic, queues=2)
        flags = ("--topics", topic, *FLAGS)
        async with Worker(source, target, tmp_path / "old", *flags) as old:
            await ready(old)
            due = round(time.time() * 1000) + 40_000
            timers = [f"timer {i}" for i in range(1000)]
            keys = await send_waiting(source, topic, timers, deliver_ms=due)
            await recall(source, topic, [keys[body] for body in timers[:100]], deliver_ms=due)
            sent = time.time()
            await send_waiting(source, topic, [f"delay {i}" for i in range(1000)], level=4)
            counts = {SCHEDULE_TOPIC: 1000, TIMER_TOPIC: 1100}
            await lose_the_site(source, target, old, topic, counts)
        async with Worker(source, target, tmp_path / "new", *flags) as new:
            await until(lambda: "the source is away" in health(new)[1].get("worker", ""), what="it stands by")
            await until(lambda: new.ask("GET", "/connectors/route/status")[0] == 200, what="the route is known")
            failing = asyncio.create_task(asked(new, "POST", "failover", {"source_dead": True}))
            await until(lambda: some_are_released(target, topic), what="some are released")
            await new.kill()
            await asyncio.wait([failing])
            await new.start()
            report = await asked(new, "POST", "failover", {"source_dead": True})
            assert report["released"]["recalled"] == 100, report
            assert report["released"]["not_released"] == []
            wanted = {*timers[100:], *(f"delay {i}" for i in range(1000))}

            async def all_there() -> bool:
                return (await arrived(target, topic)).keys() >= wanted

            await until(all_there, what="1,900 messages", seconds=90)
            again = (await asked(new, "POST", "failover", {"source_dead": True}))["released"]
            assert again["waiting"] == again["in_timer"] == again["overdue"] == 0, again
            await asyncio.sleep(2)
            found = await arrived(target, topic)
            assert found == Counter(wanted), {body: count for body, count in found.items() if count != 1}
            for messages in (await raw_topic(target, topic)).values():
                for message in messages:
                    expected = due / 1000 if message.content.startswith(b"timer") else sent + 30
                    assert message.store_timestamp / 1000 > expected - 2


@pytest.mark.parametrize(("east", "west"), [(OLD, NEW), (MIDDLE, OLD_WEST)], ids=["1.0 to 2.0", "2.0 to 1.0"])
async def test_the_site_is_lost_where_accounts_are_asked_for(
    east: ClusterSpec, west: ClusterSpec, clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """What is parked, released and found there again is so with the worker's accounts."""
    topic, target = topic_name("t"), await clusters.get(west)
    async with clusters.fresh(east) as source:
        environment = {
            **signing("SOURCE", source.access_key, source.secret_key),
            **signing("TARGET", target.access_key, target.secret_key),
        }
        await create_topic(source, topic, queues=2)
        flags = ("--topics", topic, *FLAGS)
        delays = [f"delay {i}" for i in range(20)]
        async with Worker(source, target, tmp_path / "old", *flags, environment=environment) as old:
            await ready(old)
            await send_waiting(source, topic, delays, level=3)
            counts = {SCHEDULE_TOPIC: 20}
            await lose_the_site(source, target, old, topic, counts)
        async with Worker(source, target, tmp_path / "new", *flags, environment=environment) as new:
            await until(lambda: new.ask("GET", "/connectors/route/status")[0] == 200, what="the route is known")
            report = await asked(new, "POST", "failover", {"source_dead": True})
            assert report["released"]["not_released"] == [], report

            async def all_there() -> bool:
                return (await arrived(target, topic)).keys() >= {*delays}

            await until(all_there, what="all of them", seconds=60)
            again = (await asked(new, "POST", "failover", {"source_dead": True}))["released"]
            assert again["waiting"] == again["in_timer"] == again["overdue"] == 0, again
            await asyncio.sleep(2)
            assert await arrived(target, topic) == Counter(delays)


async def test_one_topic_is_switched_and_then_the_other(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Two brokers at each side; of a topic that is not switched yet nothing is released."""
    first, second = topic_name("a"), topic_name("b")
    target = await clusters.get(ClusterSpec(name="west", version="5.5.0", brokers=2))
    async with clusters.fresh(ClusterSpec(name="east", version="5.3.3", brokers=2)) as source:
        flags = ("--topics", f"{first},{second}", *FLAGS)
        for topic in (first, second):
            await create_topic(source, topic, queues=2)
        async with Worker(source, target, tmp_path / "old", *flags) as old:
            await ready(old)
            due = round(time.time() * 1000) + 30_000
            for topic, broker in product((first, second), (0, 1)):
                timers, delays = ([f"{kind} {broker} {i}" for i in range(50)] for kind in ("timer", "delay"))
                await send_waiting(source, topic, timers, deliver_ms=due, broker=broker)
                await send_waiting(source, topic, delays, level=4, broker=broker)
            for topic in (first, second):
                counts = {SCHEDULE_TOPIC: 100, TIMER_TOPIC: 100}
                await until(partial(are_parked, target, topic, counts), what="all are parked")
            await old.kill()
        for node in source.nodes:
            await node.kill()
        wanted = Counter(
            f"{kind} {broker} {i}" for kind in ("timer", "delay") for broker in (0, 1) for i in range(50)
        )

        async def released(topic: str) -> bool:
            return (await arrived(target, topic)).keys() >= wanted.keys()

        async with Worker(source, target, tmp_path / "new", *flags) as new:
            await until(lambda: new.ask("GET", "/connectors/route/status")[0] == 200, what="the route is known")
            report = await asked(new, "POST", "failover", {"source_dead": True, "topics": [first]})
            assert report["released"]["not_released"] == [], report
            await until(partial(released, first), what="the first topic's", seconds=90)
            assert await arrived(target, second) == Counter()
            report = await asked(new, "POST", "failover", {"source_dead": True})
            assert report["released"]["not_released"] == [], report
            await until(partial(released, second), what="the other topic's", seconds=90)
            await asyncio.sleep(2)
            assert [await arrived(target, topic) for topic in (first, second)] == [wanted, wanted]


async def test_the_site_returns(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """What the source had delivered, and what it delivers after its return, arrives once, released or copied."""
    topic = topic_name("t")
    target = await clusters.get(ClusterSpec(name="west", version="5.5.0"))
    async with clusters.fresh(ClusterSpec(name="east", version="5.3.3")) as source:
        await create_topic(source, topic, queues=2)
        async with Worker(source, target, tmp_path / "old", "--topics", topic, *FLAGS) as old:
            await ready(old)
            copied, lost, later = ([f"{name} {i}" for i in range(20)] for name in ("copied", "lost", "later"))
            await send_waiting(source, topic, copied, level=2)
            now = round(time.time() * 1000)
            await send_waiting(source, topic, lost, deliver_ms=now + 15_000)
            await send_waiting(source, topic, later, deliver_ms=now + 45_000)

            async def first_are_copied() -> bool:
                return (await arrived(target, topic)).keys() == {*copied} and await are_parked(
                    target, topic, {SCHEDULE_TOPIC: 20, TIMER_TOPIC: 40}
                )

            await until(first_are_copied, what="the first ones are copied, the others parked")
            await old.kill()

        async def are_delivered() -> bool:
            return (await arrived(source, topic)).keys() == {*copied, *lost}

        await until(are_delivered, what="the source has delivered some that nobody copies")
        for node in source.nodes:
            await node.kill()
        async with Worker(source, target, tmp_path / "new", "--topics", topic, *FLAGS) as new:
            await until(lambda: "the source is away" in health(new)[1].get("worker", ""), what="it stands by")
            await until(lambda: new.ask("GET", "/connectors/route/status")[0] == 200, what="the route is known")
            would = (await asked(new, "POST", "failover", {"source_dead": True, "dry_run": True}))["released"]
            assert (would["overdue"] + would["waiting"], would["delivered"]) == (40, 20), would
            done = (await asked(new, "POST", "failover", {"source_dead": True}))["released"]
            assert done["overdue"] + done["on_time"] + done["in_timer"] == 40, done
            assert (done["delivered"], done["not_released"]) == (20, [])
            for node in source.nodes:
                await node.start()
            wanted = Counter([*copied, *lost, *later])

            async def all_are_delivered() -> bool:
                return (await arrived(source, topic)).keys() == wanted.keys()

            await until(all_are_delivered, what="the source has delivered all by itself", seconds=90)
            await send_waiting(source, topic, ["last"], level=1)
            await until(lambda: "the source is away" not in health(new)[1].get("worker", ""), what="it is back")
            assert new.ask("PUT", "/connectors/route/resume")[0] == 200

            async def last_is_there() -> bool:
                return (await arrived(target, topic))["last"] > 0

            await until(last_is_there, what="the last one is copied")
            wanted["last"] = 1
            found = await arrived(target, topic)
            # A broker that was killed may deliver again what it has delivered; no released message comes so.
            assert {body: count for body, count in found.items() if count != 1 and body not in copied} == {}
            assert found.keys() == wanted.keys()
            skipped = re.findall(r'skipped_total\{.*reason="released".*\} (\d+)', new.get("/metrics"))
            assert sum(map(int, skipped)) >= 40


async def test_a_switch_with_the_source_alive(scene: SceneOf) -> None:
    """Readiness says that all is parked; the target's timer gets it, and what the source delivers is left out."""
    async with scene(queues=2) as route, route.worker(*FLAGS) as worker:
        await ready(worker)
        timers = [f"timer {i}" for i in range(20)]
        await send_waiting(route.source, route.topic, timers, deliver_ms=round(time.time() * 1000) + 15_000)
        await send_waiting(route.source, route.topic, ["2 h"], level=18)

        async def all_parked() -> bool:
            pending = (await asked(worker, "GET", "readiness"))["pending"]["messages"]
            found = {each["kind"]: each["messages"] for each in pending if each["parked"] == "all"}
            return found == {"delay": 1, "timer": 20}

        await until(all_parked, what="readiness says that all are parked")
        released = (await asked(worker, "POST", "failover", {"drain_timeout": 5}))["released"]
        assert (released["in_timer"], released["not_released"]) == (21, []), released

        async def both_have_all() -> bool:
            both = [await arrived(cluster, route.topic) for cluster in (route.source, route.target)]
            return both == [Counter(timers)] * 2

        await until(both_have_all, what="both deliver them")
        assert worker.ask("PUT", "/connectors/route/resume")[0] == 200
        await send_waiting(route.source, route.topic, ["last"], level=1)

        async def last_is_there() -> bool:
            return (await arrived(route.target, route.topic))["last"] > 0

        await until(last_is_there, what="the last one is copied")
        assert await arrived(route.target, route.topic) == Counter([*timers, "last"])
