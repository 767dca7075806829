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
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.state.connector_configs import Connectors
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


def test_a_fake_worker_with_the_least_name_does_not_make_a_new_one_ready(tmp_path: Path) -> None:
    """Nobody but the leader assigns tasks, and that one never does: the answer names it."""
    store = Store(tmp_path)
    coordinator = Coordinator("w", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    worker = SimpleNamespace(
        id="w",
        coordinator=coordinator,
        connectors=Connectors(store),
        queues=[],
        routes=SimpleNamespace(problems={}),
        group=SimpleNamespace(waiting_for=""),
        standby=None,
        may_send=lambda: True,
    )
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


def test_a_worker_that_does_not_reach_the_target_is_not_ready(tmp_path: Path) -> None:
    store = Store(tmp_path)
    worker = SimpleNamespace(
        id="w",
        coordinator=Coordinator("w", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5),
        connectors=Connectors(store),
        queues=[],
        routes=SimpleNamespace(problems={}),
        group=SimpleNamespace(waiting_for=""),
        standby=None,
        may_send=lambda: True,
    )
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
    worker = SimpleNamespace(
        id="w",
        coordinator=coordinator,
        connectors=Connectors(store),
        queues=[state],
        routes=SimpleNamespace(problems={}),
        group=SimpleNamespace(waiting_for=""),
        standby=None,
        may_send=lambda: True,
    )
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
