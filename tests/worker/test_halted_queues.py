"""Queues that nobody copies are told by one worker, until their tasks start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector.route import Route
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase
from replicator.state.connector_configs import Connectors, State
from replicator.state.store import Store
from replicator.worker import halted_queues as module
from replicator.worker.halted_queues import HaltedQueues


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
