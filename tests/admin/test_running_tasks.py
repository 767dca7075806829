"""Which tasks run is what the heartbeats say; nobody waits for them longer than a minute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import running_tasks
from replicator.admin.running_tasks import running, stopped


def worker(
    *,
    mine: tuple[str, ...] = (),
    heard: tuple[str, ...] = (),
    releasing: tuple[str, ...] = (),
    assigned: tuple[str, ...] = (),
    changing: bool = False,
    at_target: tuple[str, ...] = (),
) -> Any:
    def others(tasks: tuple[str, ...], releasing: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"w1": SimpleNamespace(tasks=dict.fromkeys(tasks, "RUNNING"), releasing=releasing)}

    coordinator = SimpleNamespace(
        running={*mine},
        membership=SimpleNamespace(others=others(heard, releasing)),
        assignment=SimpleNamespace(owners=dict.fromkeys(assigned, "w1")),
        adopted=not changing,
    )
    return SimpleNamespace(coordinator=coordinator, seen_at_target=others(at_target))


@pytest.mark.parametrize("where", ["mine", "heard", "releasing", "assigned"])
def test_tasks_here_and_elsewhere(where: str) -> None:
    given: dict[str, Any] = {where: ("route/orders",)}
    asked: Any = worker(**given)
    assert running(asked, ("route",))
    assert not running(asked, ("other",))


def test_a_worker_that_has_not_heard_of_the_stop_may_start_tasks() -> None:
    """Its heartbeat names them up to a heartbeat interval later."""
    assert running(worker(changing=True), ("route",))
    assert not running(worker(), ("route",))


def test_with_the_source_dead_the_targets_log_counts() -> None:
    asked = worker(heard=("route/orders",), assigned=("route/orders",), changing=True)
    assert not running(asked, ("route",), source_dead=True)
    assert running(worker(at_target=("route/orders",)), ("route",), source_dead=True)


async def test_waiting_ends_when_they_have_stopped_or_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_tasks, "_POLL_INTERVAL", 0.0)
    asked = worker(mine=("route/orders",))
    monkeypatch.setattr(running_tasks, "_SECONDS", 0.05)
    assert not await stopped(asked, ("route",))
    asked.coordinator.running.clear()
    assert await stopped(asked, ("route",))
