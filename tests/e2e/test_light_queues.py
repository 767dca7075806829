"""Messages in light message queues (LMQ), or in lite topics, are in those of the target, too, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import pytest

from replicator.client.offsets import commit_offset
from replicator.client.pull import pull
from replicator.protocol.properties import find
from replicator.sandbox import Cluster, ClusterSpec
from tests.e2e.test_audit import verified
from tests.support.offsets import make_group, offsets_of
from tests.support.readiness import asked, ready
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, judge, raw_topic, send, send_alone
from tests.support.worker import SYNC_QUICKLY, until

LMQ = {"enableLmq": "true", "enableMultiDispatch": "true"}
#: Messages of each of two queues.
EACH = 60


def of(version: str, name: str) -> ClusterSpec:
    """A cluster with light message queues."""
    return ClusterSpec(name=name, version=version, properties=LMQ)


async def produce(route: Scene, count: int) -> None:
    """`count` messages to each of both queues; of four the first and the third have light message queues."""
    a, b, c = (f"%LMQ%{route.topic}-{name}" for name in "abc")
    async with connected(route.source) as client:
        for i in range(0, count, 4):
            for queue_id, (first, third) in enumerate([(a, f"{a},{b}"), (c, c)]):
                place = ("east-a", route.topic, queue_id)
                plain = {"KEYS": "plain", "TAGS": "t"}
                await send_alone(client, *place, b"%d" % i, {"KEYS": f"k{i}", "INNER_MULTI_DISPATCH": first})
                await send(client, *place, [(b"%d" % (i + 1), plain)])
                await send_alone(client, *place, b"%d" % (i + 2), {"INNER_MULTI_DISPATCH": third, "TAGS": "t"})
                await send(client, *place, [(b"%d" % (i + 3), plain)])


async def light_queue(cluster: Cluster, name: str) -> list[bytes]:
    """The bodies of all that is in it."""
    bodies: list[bytes] = []
    async with connected(cluster) as client:
        (broker,) = client.brokers()
        at = 0
        while True:
            pulled = await pull(client.master(broker), name, 0, at)
            if not pulled.messages:
                return bodies
            bodies += [message.content for message in pulled.messages]
            at = pulled.next_offset


async def light_queues(cluster: Cluster, topic: str) -> dict[str, list[bytes]]:
    return {name: await light_queue(cluster, f"%LMQ%{topic}-{name}") for name in "abc"}


def of_light_queues(count: int) -> dict[str, list[bytes]]:
    """What is in light message queues after `count` messages in each queue."""
    every_other = [b"%d" % i for i in range(0, count, 2)]
    return {"a": every_other, "b": every_other[1::2], "c": every_other}


async def assert_light_queues(route: Scene, count: int) -> None:
    """Those of both clusters have what they should, once the target's broker has dispatched it."""
    expected = of_light_queues(count)
    assert await light_queues(route.source, route.topic) == expected

    async def dispatched() -> bool:
        return (await light_queues(route.target, route.topic))["c"][-1:] == expected["c"][-1:]

    await until(dispatched, what="the target has dispatched the last one")
    assert await light_queues(route.target, route.topic) == expected


async def test_light_queues_of_5x(scene: SceneOf) -> None:
    """Others are between them in the ordinary queues; the audit has nothing to say of either."""
    async with (
        scene(source=of("5.3.3", "east"), target=of("5.5.0", "west"), queues=2) as route,
        route.worker() as worker,
    ):
        await produce(route, EACH)
        await worker.caught_up(route.topic, 2 * EACH)
        await route.assert_clean(2 * EACH)
        await assert_light_queues(route, EACH)
        await until(lambda: verified(worker, route.topic), what="all verified")
        assert worker.metric("audit_differences_total") == 0


async def test_lite_topics(scene: SceneOf) -> None:
    """Of 5.5.0: each is a light queue, and messages name it in a property of its own."""
    async with scene(source=of("5.5.0", "east"), target=of("5.5.0", "west"), queues=2) as route:
        topic = f"{route.topic}-lite"
        await create_topic(route.source, topic, queues=2, attributes={"message.type": "LITE"})
        async with (
            connected(route.source) as client,
            route.worker("--topics", topic) as worker,
        ):
            for i in range(EACH):
                for queue_id, lite in enumerate("ab"):  # a Proxy has each in one queue
                    properties = {"KEYS": f"k{i}", "__LITE_TOPIC": lite}
                    await send_alone(client, "east-a", topic, queue_id, b"%d" % i, properties)
            await worker.caught_up(topic, 2 * EACH)
            verdict = await judge(route.source, route.target, topic)
            assert (verdict.clean, verdict.copies) == (True, 2 * EACH), verdict.report()
            expected = [b"%d" % i for i in range(EACH)]
            for name in (f"%LMQ%${topic}${lite}" for lite in "ab"):

                async def dispatched(name: str = name) -> bool:
                    return len(await light_queue(route.target, name)) == EACH

                await until(dispatched, what=f"the target has dispatched {name}")
                assert await light_queue(route.source, name) == await light_queue(route.target, name) == expected
            await until(lambda: verified(worker, topic), what="all verified")
            assert worker.metric("audit_differences_total") == 0


async def move(cluster: Cluster, group: str, offsets: Mapping[str, int]) -> None:
    """Says what `group` has consumed of light message queues, as its consumers would."""
    async with connected(cluster) as client:
        for name, offset in offsets.items():
            await commit_offset(client.master(f"{cluster.spec.name}-a"), group, name, 0, offset)


async def next_of(cluster: Cluster, group: str, names: Iterable[str]) -> dict[str, list[bytes]]:
    """What `group` has still before it in light message queues; those in which it has no offset are left out."""
    places = {name: await offsets_of(cluster, group, name) for name in names}
    return {
        name: (await light_queue(cluster, name))[offset:] for name, at in places.items() for offset in at.values()
    }


@pytest.mark.parametrize(("older", "newer"), [("4.9.7", "5.3.3"), ("5.3.3", "5.5.0")])
async def test_groups_go_on_where_they_are(
    scene: SceneOf, topic_name: Callable[[str], str], older: str, newer: str
) -> None:
    """In each light message queue: while more comes, and after a failover."""
    group = topic_name("g")
    async with scene(source=of(older, "east"), target=of(newer, "west"), queues=2) as route:
        a, b, c, own = names = [f"%LMQ%{route.topic}-{name}" for name in ("a", "b", "c", "own")]
        await make_group(route.source, group)
        await produce(route, EACH)
        await send_light(route.source, route.topic, [a, b, own])
        await move(route.source, group, {a: 7, b: 0, c: len(of_light_queues(EACH)["c"]), own: 0})
        async with route.worker(*SYNC_QUICKLY) as worker:
            await worker.caught_up(route.topic, 2 * EACH + 3)

            async def same() -> bool:
                return await next_of(route.target, group, names) == await next_of(route.source, group, names)

            await until(same, what="the group is at the target where it is")
            await produce(route, EACH)
            await move(route.source, group, {a: 22, b: 4, own: 1})
            await until(same, what="the group has moved at the target")
            await ready(worker)
            told = (await asked(worker, "GET", "readiness"))["groups"]
            assert {each["topic"] for each in told if each["group"] == group} == {*names}
            await asked(worker, "POST", "failover", {"drain_timeout": 20})
            assert await same()


async def test_what_is_filled_from_several_queues_is_named(
    scene: SceneOf, topic_name: Callable[[str], str]
) -> None:
    """Copies of several queues may be in another order than at the source: no offset would be right."""
    group = topic_name("g")
    async with (
        scene(source=of("5.3.3", "east"), target=of("5.5.0", "west"), queues=2) as route,
        route.worker(*SYNC_QUICKLY) as worker,
    ):
        name = f"%LMQ%{route.topic}-both"
        await make_group(route.source, group)
        async with connected(route.source) as client:
            for queue_id in (0, 1):
                await send_alone(client, "east-a", route.topic, queue_id, b"x", {"INNER_MULTI_DISPATCH": name})
        await move(route.source, group, {name: 1})
        await worker.caught_up(route.topic, 2)

        async def named() -> bool:
            problems = (await asked(worker, "GET", "readiness"))["pending"]["problems"]
            return any(f"of {group} in {name}" in each and "several queues" in each for each in problems)

        await until(named, what="readiness names it")
        assert await offsets_of(route.target, group, name) == {}


async def send_light(cluster: Cluster, topic: str, names: Iterable[str]) -> None:
    """One message into each light message queue, by way of queue 0."""
    async with connected(cluster) as client:
        for name in names:
            await send_alone(client, f"{cluster.spec.name}-a", topic, 0, b"more", {"INNER_MULTI_DISPATCH": name})


async def test_light_queues_of_4x_and_a_worker_that_is_killed(scene: SceneOf) -> None:
    """In the midst of it: what continues finds each message once in each of its queues."""
    async with (
        scene(source=of("4.9.7", "east"), target=of("4.9.7", "west"), queues=2) as route,
        route.worker() as worker,
    ):
        producing = asyncio.create_task(produce(route, 5 * EACH))
        await until(lambda: worker.has_copied(route.topic, EACH), what="half a queue")
        await worker.kill()
        await producing
        await worker.start()
        await route.assert_clean_soon(10 * EACH)
        await assert_light_queues(route, 5 * EACH)


async def test_a_target_without_light_message_queues(scene: SceneOf) -> None:
    """Its copies are ordinary messages, without the source's offsets in queues that the target does not have."""
    async with (
        scene(source=of("5.3.3", "east"), queues=2) as route,
        route.worker() as worker,
    ):
        await produce(route, EACH)
        await worker.caught_up(route.topic, 2 * EACH)
        await route.assert_clean(2 * EACH)
        for copies in (await raw_topic(route.target, route.topic)).values():
            assert sum(find(copy.properties, b"INNER_MULTI_DISPATCH") is not None for copy in copies) == EACH // 2
            assert not any(find(copy.properties, b"INNER_MULTI_QUEUE_OFFSET") for copy in copies)


async def test_one_that_cannot_be_sent_singly_is_named(scene: SceneOf) -> None:
    """It was delayed at the source: at the target it would be delayed once more."""
    async with scene(queues=1) as route, route.worker() as worker:
        light = {"INNER_MULTI_DISPATCH": f"%LMQ%{route.topic}", "INNER_MULTI_QUEUE_OFFSET": "0"}
        async with connected(route.source) as client:
            await send(client, "east-a", route.topic, 0, [(b"plain", {}), (b"late", light | {"DELAY": "1"})])
        await until(lambda: [q["state"] for q in worker.queues(route.topic)] == ["FAILED"], what="a failed queue")
        (queue,) = worker.queues(route.topic)
        assert queue["position"] == 1
        for words in ("offset 1", "light message queues", "property DELAY", "with a transform"):
            assert words in queue["reason"], queue["reason"]
