"""A source topic that is deleted and recreated is noticed, counted, and copied from its first message."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from replicator.protocol import properties
from replicator.routing.look_back import UNWATCHED
from replicator.sandbox import ClusterSpec
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import create_topic, raw_topic, remove_topic, topics_of
from tests.support.worker import until


async def _numbers(route: Scene) -> list[int]:
    """What the one queue of the copy holds, in order."""
    copies = (await raw_topic(route.target, route.topic))["west-a", 0]
    return [int(properties.decode(message.properties)["n"]) for message in copies]


async def _recreate(route: Scene) -> None:
    """Deletes the source topic and creates it again, later by the broker's clock than all it had stored."""
    (before,) = (await raw_topic(route.source, route.topic)).values()
    await remove_topic(route.source, route.topic)

    async def gone() -> bool:
        named = [name for topics in (await topics_of(route.source)).values() for name in topics]
        return route.topic not in named and time.time() * 1000 > before[-1].store_timestamp

    await until(gone)
    await create_topic(route.source, route.topic, queues=1)


async def test_topic_deleted_and_recreated_while_it_runs(scene: SceneOf) -> None:
    """The new topic is copied from its first message, behind what was copied of the old one."""
    async with scene(queues=1) as route:
        await route.produce(300)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 300)
            await _recreate(route)
            await route.produce(100, start=1000)

            async def arrived(count: int) -> bool:
                return len(await _numbers(route)) >= count

            await until(partial(arrived, 400))
            await route.produce(50, start=1100)
            # Whether the route counts on or from zero depends on whether it saw that the topic was gone.
            await until(partial(arrived, 450))
            await worker.caught_up(route.topic, 150)
            assert worker.metric("source_resets_total") == 1
            assert await worker.drain() == 0
        assert await _numbers(route) == [*range(300), *range(1000, 1150)]


async def test_topic_recreated_and_filled_while_a_pull_is_held(scene: SceneOf) -> None:
    """Nothing of the new topic is skipped, though it has grown beyond the position before anybody could look."""
    async with scene(queues=1) as route:
        await route.produce(5)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 5)
            await asyncio.sleep(UNWATCHED)
            await _recreate(route)
            await route.produce(20, start=1000)
            await worker.caught_up(route.topic, 20)
            assert worker.metric("source_resets_total") == 1
            assert await worker.drain() == 0
        assert await _numbers(route) == [*range(5), *range(1000, 1020)]


async def test_what_was_unread_of_a_topic_that_is_recreated_counts_as_lost(scene: SceneOf) -> None:
    """To the message: what was copied of the old topic and what was lost of it are all that it had."""
    async with scene(queues=1) as route:
        flags = ("--memory-bytes", "1MiB", "--rate-messages", "20")  # reads 100 messages ahead at most
        await route.produce(1000, size=10_000)  # all are there at the first pull, which tells of them
        async with route.worker(*flags) as worker:
            await until(lambda: worker.has_copied(route.topic, 1))
            await _recreate(route)
            await worker.set_rates()
            await route.produce(50, start=5000)
            await until(lambda: worker.metric("source_resets_total") == 1, what="the reset is noticed")
            await worker.caught_up(route.topic, 50)
            numbers = await _numbers(route)
            old = [number for number in numbers if number < 5000]
            assert numbers == [*range(len(old)), *range(5000, 5050)]
            assert 0 < len(old) < 500
            assert worker.metric("source_gap_messages_total") == 1000 - len(old)


@pytest.mark.parametrize(
    ("version", "later", "reason"),
    [
        ("4.9.7", 100, "the source queue ends at offset 100, before the position 300"),
        ("5.5.0", 400, "the source queue has other messages than those copied before the position 300"),
    ],
    ids=["shorter", "longer"],
)
async def test_topic_deleted_and_recreated_while_it_is_away(
    scene: SceneOf, version: str, later: int, reason: str
) -> None:
    """Also when the new topic has grown beyond the position, so that offsets alone tell nothing.

    `fail` stands still and says so, `skip` counts it once and copies the new one.
    """
    async with scene(source=ClusterSpec(name="east", version=version), queues=1) as route:
        await route.produce(300)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 300)
            assert worker.metric("source_resets_total") == 0
            await worker.drain()
        await _recreate(route)
        await route.produce(later, start=1000)
        async with route.worker("--on-gap", "fail") as worker:
            await until(lambda: worker.topic(route.topic).get("state") == "FAILED")
            assert reason in worker.topic(route.topic)["reason"]
            assert worker.metric("source_resets_total") == 1
            assert worker.topic(route.topic)["copied"] == 0
        for resets in (1, 0):
            async with route.worker() as worker:
                await worker.caught_up(route.topic, 0)
                assert worker.metric("source_resets_total") == resets
                await worker.kill()
        assert await _numbers(route) == [*range(300), *range(1000, 1000 + later)]
