"""A source broker loses the end of its queues, as by a restored disk: noticed, counted, handled by policy."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replicator.protocol import properties
from replicator.sandbox import ClusterSpec
from tests.support.offsets import are_at, commit, make_group
from tests.support.older_store import OlderStore
from tests.support.readiness import ready
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import raw_topic
from tests.support.worker import SYNC_QUICKLY, Worker, until

FORGETFUL = ClusterSpec(name="truncated", version="4.9.7")
FORGETFUL_5 = ClusterSpec(name="truncated", version="5.5.0")
KEPT, LOST = 300, 200


class _Truncation:
    """A copy of the source's store, made when its queue had `KEPT` messages."""

    def __init__(self, route: Scene, directory: Path) -> None:
        self._route = route
        self._store = OlderStore(route.source, directory)

    async def save(self) -> None:
        await self._store.save()

    async def restore(self) -> None:
        """Returns when the queue is as it was."""
        await self._store.restore()
        await self._store.shows(self._route.topic, KEPT)


@asynccontextmanager
async def _copied(
    scene: SceneOf, directory: Path, spec: ClusterSpec = FORGETFUL
) -> AsyncIterator[tuple[Scene, _Truncation]]:
    """A route on whose source `KEPT` messages are saved, and `LOST` more are not."""
    async with scene(source=spec, mistreated=(spec,), queues=1) as route:
        truncation = _Truncation(route, directory / "saved")
        await route.produce(KEPT)
        await truncation.save()
        await route.produce(LOST, start=KEPT)
        yield route, truncation


async def _numbers(route: Scene) -> list[int]:
    (copies,) = (await raw_topic(route.target, route.topic)).values()
    return [int(properties.decode(message.properties)["n"]) for message in copies]


def _reset(worker: Worker, route: Scene) -> bool:
    return bool([queue for queue in worker.queues(route.topic) if queue["resets"] == 1])


async def test_while_it_runs(scene: SceneOf, tmp_path: Path) -> None:
    """It goes on with what comes at the end that the queue has now, and repeats nothing."""
    async with _copied(scene, tmp_path) as (route, truncation), route.worker() as worker:
        await worker.caught_up(route.topic, KEPT + LOST)
        await truncation.restore()
        await until(lambda: _reset(worker, route))
        await route.produce(100, start=1000)
        await worker.caught_up(route.topic, KEPT + LOST + 100)
        labels = f'connector="route",source="truncated",target="west",topic="{route.topic}"'
        assert f"source_resets_total{{{labels}}} 1.0" in worker.get("/metrics")
        assert await _numbers(route) == [*range(KEPT + LOST), *range(1000, 1100)]


async def test_a_group_that_is_behind(scene: SceneOf, tmp_path: Path) -> None:
    """It keeps its place at the target, and goes on with the source, over what that has lost."""
    async with _copied(scene, tmp_path) as (route, truncation):
        group, topic = f"{route.topic}-g", route.topic

        async def consumed(offset: int) -> None:
            await commit(route.source, group, topic, {("truncated-a", 0): offset})

        def is_at(offset: int) -> partial[Coroutine[Any, Any, bool]]:
            return partial(are_at, route.target, group, topic, {("west-a", 0): offset})

        await make_group(route.source, group)
        await consumed(50)
        async with route.worker(*SYNC_QUICKLY, "--sync-groups", group) as worker:
            await worker.caught_up(topic, KEPT + LOST)
            await until(is_at(50))
            await truncation.restore()
            await make_group(route.source, group)
            await consumed(50)
            await until(lambda: _reset(worker, route))
            await route.produce(100, start=1000)
            await worker.caught_up(topic, KEPT + LOST + 100)
            for source, target in ((70, 70), (KEPT, KEPT + LOST), (KEPT + 20, KEPT + LOST + 20)):
                await consumed(source)
                await until(is_at(target))
            await ready(worker)


async def test_while_it_is_away(scene: SceneOf, tmp_path: Path) -> None:
    """`fail` stands still and says where the queue ends; `skip` goes on there."""
    async with _copied(scene, tmp_path) as (route, truncation):
        async with route.worker() as worker:
            await worker.caught_up(route.topic, KEPT + LOST)
            assert await worker.drain() == 0
        await truncation.restore()
        async with route.worker("--on-gap", "fail") as worker:
            await until(lambda: worker.topic(route.topic).get("state") == "FAILED")
            told = f"ends at offset {KEPT}, before the position {KEPT + LOST}"
            assert told in worker.topic(route.topic)["reason"]
        async with route.worker() as worker:
            await until(lambda: _reset(worker, route))
            await route.produce(100, start=1000)
            await worker.caught_up(route.topic, 100)
        assert await _numbers(route) == [*range(KEPT + LOST), *range(1000, 1100)]


@pytest.mark.parametrize(
    ("meanwhile", "spec"), [("away", FORGETFUL_5), ("running", FORGETFUL)], ids=["away", "running"]
)
async def test_grown_beyond_the_position_since(
    scene: SceneOf, tmp_path: Path, meanwhile: str, spec: ClusterSpec
) -> None:
    """Offsets alone tell nothing then: all new messages arrive, and none of those before them again."""
    async with _copied(scene, tmp_path, spec) as (route, truncation):
        worker = route.worker()
        await worker.start()
        await worker.caught_up(route.topic, KEPT + LOST)
        if meanwhile == "away":
            assert await worker.drain() == 0
        else:  # it sees nothing of what happens
            worker.signal(signal.SIGSTOP)
        await truncation.restore()
        await route.produce(2 * LOST, start=1000)
        if meanwhile == "away":
            await worker.start()
        else:
            worker.signal(signal.SIGCONT)
        try:
            await until(lambda: _reset(worker, route))
            await worker.caught_up(route.topic, 2 * LOST)
        finally:
            await worker.kill()
        assert await _numbers(route) == [*range(KEPT + LOST), *range(1000, 1000 + 2 * LOST)]
