"""Queues that nobody copies are told by one worker, until their tasks start."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from replicator.connector.route import Route
from replicator.errors import Unreachable
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase
from replicator.state.connector_configs import Connectors, State
from replicator.state.store import Store
from replicator.worker import halted_queues as module
from replicator.worker.halted_queues import HaltedQueues
from tests.support.worker import until


class Scene:
    """A stopped route of one topic with two queues, each of its own task; `speaks` is whether we tell for all."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.speaks = True
        self.connectors = Connectors(store)
        self.connectors.create("route", {"topics": ["orders"]})
        self.connectors.set_state("route", State.STOPPED)
        queues = {Queue("a", n): Queue("x", n) for n in range(2)}
        route: Any = object.__new__(Route)
        route.topics = SimpleNamespace(plans=[TopicPlan(topic="orders", target_topic="orders", queue_map=queues)])
        route.settings = self.connectors.get("route").settings
        monkeypatch.setattr(Route, "task_of", lambda _, queue: f"route/orders/{queue.queue_id}")
        monkeypatch.setattr(module, "max_offset", self._end)
        monkeypatch.setattr(module, "min_offset", self._begin)
        coordinator: Any = SimpleNamespace(
            running=set(),
            membership=SimpleNamespace(others={}),
            assignment=SimpleNamespace(owners={}),
            speaks_for_all=lambda: self.speaks,
        )
        self.coordinator = coordinator
        cluster = SimpleNamespace(reader=lambda _: SimpleNamespace(refuse_pause=lambda: None, address="a:1"))
        context: Any = SimpleNamespace(store=store, source=SimpleNamespace(cluster=cluster))
        routes: Any = {"route": route}
        skews: dict[str, float] = {}
        self.halted = HaltedQueues(self.connectors, routes, coordinator, context, skews)

    async def _begin(self, *_: object) -> int:
        return 0

    async def _end(self, *_: object) -> int:
        return 0

    @property
    def shown(self) -> list[tuple[int, Phase]]:
        return [(state.source.queue_id, state.phase) for state in self.halted.states]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    store = Store(tmp_path)
    yield Scene(store, monkeypatch)
    store.close()


async def test_a_queue_whose_task_has_started_is_not_told_twice(scene: Scene) -> None:
    """Before the next look, by whatever worker: what it has copied would count twice."""
    await scene.halted.refresh()
    assert scene.shown == [(0, Phase.STOPPED), (1, Phase.STOPPED)]
    scene.coordinator.running = {"route/orders/0"}
    assert scene.shown == [(1, Phase.STOPPED)]
    scene.coordinator.membership.others = {"w2": SimpleNamespace(tasks={"route/orders/1": "RUNNING"})}
    assert scene.shown == []
    scene.coordinator.running, scene.coordinator.membership.others = set(), {}
    assert len(scene.shown) == 2


async def test_one_worker_tells_of_them(scene: Scene) -> None:
    await scene.halted.refresh()
    scene.speaks = False
    await scene.halted.refresh()
    assert scene.shown == []


async def test_nothing_is_told_before_the_lag_is_known(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is not time to ask for those again that are known."""
    answer, asked = asyncio.Event(), []

    async def end(_: object, _topic: str, queue: int) -> int:
        asked.append(queue)
        await answer.wait()
        return 70

    monkeypatch.setattr(module, "max_offset", end)
    monkeypatch.setattr(module, "pull", AsyncMock(return_value=SimpleNamespace(messages=[])))
    monkeypatch.setattr(module, "_PAUSE", 1_000_000)
    scene.coordinator.running = {"route/orders/1"}
    looking = asyncio.create_task(scene.halted.refresh())
    await until(lambda: asked)
    assert scene.shown == []
    answer.set()
    await looking
    assert [state.progress.lag for state in scene.halted.states] == [70]
    scene.coordinator.running = set()
    await scene.halted.follow()
    assert ([state.progress.lag for state in scene.halted.states], asked) == ([70, 70], [0, 1])


async def test_a_connector_that_is_halted_is_looked_at_soon(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its tasks have ended; one that resumed is looked at once more."""
    looks = []
    monkeypatch.setattr(module, "min_offset", lambda *_: pytest.fail("nothing is asked from the beginning"))
    refresh = scene.halted._refresh

    async def counted() -> None:
        looks.append(len(scene.coordinator.running))
        await refresh()

    monkeypatch.setattr(scene.halted, "_refresh", counted)
    monkeypatch.setattr(scene.halted, "_restore", lambda state, _: setattr(state.progress, "position", 0))
    scene.coordinator.running = {"route/orders/1"}
    for _ in range(2):
        await scene.halted.follow()
    scene.coordinator.running = set()
    for _ in range(3):
        await scene.halted.follow()
    assert looks == [1, 1, 0]
    scene.connectors.set_state("route", State.RUNNING)
    for _ in range(2):
        await scene.halted.follow()
    assert looks == [1, 1, 0, 0]


async def test_a_lag_that_was_never_known_is_not_that_of_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> int:
        raise Unreachable("a:1", "away")

    monkeypatch.setattr(module, "max_offset", away)
    await scene.halted.refresh()
    assert scene.halted.states[0].reason.startswith("its connector is stopped; its lag is not known: a:1 cannot be")
