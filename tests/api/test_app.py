"""Readiness: a worker that should have tasks and has no assignment is not ready, whoever leads."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from replicator.api.app import make_app
from replicator.group.assignment import sticky
from replicator.group.coordinator import Assignment, Coordinator
from replicator.group.freshness import Echo
from replicator.group.membership import Generation, Heartbeat, Side
from replicator.group.unowned_tasks import UnownedTasks
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connectors, State
from replicator.state.store import Store
from replicator.worker.worker import Worker


def reasons(worker: Any) -> dict[str, str]:
    async def no_metrics() -> bytes:
        return b""

    app = make_app(cast("Worker", worker), metrics=no_metrics, stopping=lambda: False)
    answer = TestClient(app).get("/health/ready")
    told = json.loads(answer.content)
    assert answer.status_code == (200 if told["ready"] else 503)
    return dict(told["reasons"])


def worker_of(coordinator: Coordinator, store: Store, **parts: object) -> SimpleNamespace:
    """What of a worker its readiness depends on; nothing is wrong with it but what `parts` say."""
    usual: dict[str, object] = {
        "id": "w",
        "settings": SimpleNamespace(session_timeout=5.0, metadata_refresh_interval=5.0),
        "coordinator": coordinator,
        "connectors": Connectors(store),
        "queues": [],
        "routes": SimpleNamespace(problems={}),
        "group": SimpleNamespace(waiting_for="", is_split=False),
        "standby": None,
        "unowned": UnownedTasks(),
        "may_send": lambda: True,
    }
    return SimpleNamespace(**usual | parts)


def test_a_fake_worker_with_the_least_name_does_not_make_a_new_one_ready(tmp_path: Path) -> None:
    """Nobody but the leader assigns tasks, and that one never does: the answer names it."""
    store = Store(tmp_path)
    coordinator = Coordinator("w", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    worker = worker_of(coordinator, store)
    beat = Heartbeat(worker="aaa", incarnation="i", sequence=1, echo=Echo("a", 1))
    for side in Side:
        coordinator.echoed(side, beat, 0.0, 0.0)
        coordinator.membership.heard(side, beat, 0.0, place="a")
    assert coordinator.step(1.0, {"route/orders"}, wanted=lambda _: True).publish is None
    assert "aaa leads the group and has not assigned any" in reasons(worker)["worker"]
    coordinator.adopt(Assignment(generation=Generation(1, "aaa"), members=frozenset({"aaa"}), owners={}))
    assert "aaa leads the group" in reasons(worker)["worker"]
    coordinator.adopt(Assignment(generation=Generation(2, "aaa"), members=frozenset({"aaa", "w"}), owners={}))
    assert reasons(worker) == {}, "there may be fewer tasks than workers"
    store.close()


@pytest.mark.parametrize("owners", [{}, {"route/orders": "gone"}], ids=["nobody's", "a worker's that is not there"])
def test_a_leader_that_gives_a_task_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: dict[str, str]
) -> None:
    """It names this worker a member. That a task has no owner is nothing for a moment, but does not last."""
    clock = 100.0
    monkeypatch.setattr("replicator.api.worker.now", lambda: clock)
    store = Store(tmp_path)
    coordinator = Coordinator("w", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    connectors = Connectors(store)
    connectors.bring("route", RouteSettings(topics=("orders",)), State.RUNNING)
    worker, unowned = worker_of(coordinator, store, connectors=connectors), UnownedTasks()
    worker.unowned = unowned
    beat = Heartbeat(worker="aaa", incarnation="i", sequence=1, echo=Echo("a", 1))
    for side in Side:
        coordinator.echoed(side, beat, 100.0, 100.0)
        coordinator.membership.heard(side, beat, 100.0, place="a")
    members = frozenset({"aaa", "w"})
    coordinator.adopt(Assignment(generation=Generation(2, "aaa"), members=members, owners=owners))
    unowned.update(coordinator, {"route/orders"}, 100.0)
    assert reasons(worker) == {}, "the next assignment may be on its way"
    clock = 110.5
    unowned.update(coordinator, {"route/orders"}, 103.0)
    assert reasons(worker) == {
        "route": "no worker has its task route/orders, for 10 s now: aaa leads the group and has not assigned it;"
        " if that goes on, see whether there is such a worker, and sign the group's messages"
        " (worker_group_secret_file)"
    }
    connectors.set_state("route", State.PAUSED)
    assert reasons(worker) == {"route": "the connector is paused: resume it to copy again"}
    store.close()


def test_a_worker_that_does_not_reach_the_target_is_not_ready(tmp_path: Path) -> None:
    store = Store(tmp_path)
    worker = worker_of(Coordinator("w", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5), store)
    assert "does not reach the target" in reasons(worker)["worker"]
    store.close()


def test_a_topic_that_stands_in_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment is as it should be; waiting in between does not begin it again."""
    clock = 100.0
    monkeypatch.setattr("replicator.routing.state.now", lambda: clock)
    monkeypatch.setattr("replicator.api.worker.now", lambda: clock)
    store = Store(tmp_path)
    coordinator = Coordinator("w", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    coordinator.adopt(Assignment(generation=Generation(1, "w"), members=frozenset({"w"}), owners={}))
    state = QueueState("orders", Queue("a", 0), Queue("b", 0))
    worker = worker_of(coordinator, store, queues=[state])
    state.set_phase(Phase.RECOVERING, "b:1 does not answer")
    assert reasons(worker) == {}
    clock = 103.0
    state.set_phase(Phase.WAITING, "b:1 cannot be reached")
    assert reasons(worker) == {"orders": "b:1 cannot be reached"}
    clock = 106.0
    state.set_phase(Phase.RECOVERING, "b:1 does not answer")
    assert reasons(worker) == {"orders": "recovering for 6 s: b:1 does not answer"}
    state.set_phase(Phase.RUNNING)
    state.set_phase(Phase.RECOVERING, "b:1 does not answer")
    assert reasons(worker) == {}
    store.close()
