"""What is left of routes that are made again, or whose connectors are deleted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.routing.limiter import RateLimiter
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.state.connector_configs import State
from replicator.state.store import Store
from replicator.worker import connectors as module
from replicator.worker.connectors import Routes


class Group:
    """Connectors by name, each with its epoch, at a worker with `routes`."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.epochs: dict[str, int] = {}
        self.made = 1
        self.context: Any = SimpleNamespace(store=store, tallies={})
        monkeypatch.setattr(store, "made_of", lambda _: self.made)
        monkeypatch.setattr(module, "_make", self._make)
        monkeypatch.setattr(module, "rate_shares", lambda *_, **__: {})
        coordinator: Any = SimpleNamespace(me="w0", running=(), assignment=SimpleNamespace(owners={}))
        connectors: Any = SimpleNamespace(all=self._all)
        self.routes = Routes(connectors, coordinator, self.context, SimpleNamespace())  # type: ignore[arg-type]

    def _all(self) -> dict[str, Any]:
        return {
            name: SimpleNamespace(name=name, epoch=epoch, settings=epoch, state=State.RUNNING)
            for name, epoch in self.epochs.items()
        }

    def _make(self, connector: Any, *_: object) -> Any:
        return SimpleNamespace(
            name=connector.name,
            settings=connector.settings,
            limiter=RateLimiter(),
            plan=lambda: None,
            share=lambda _: None,
            with_rates=lambda _: False,
        )

    def ended(self, name: str) -> None:
        """A queue of the connector has ended here."""
        state = QueueState("T", Queue("a", 0), Queue("x", 0), route=name)
        state.made = self.made
        self.context.tallies[state.key] = state.tally()


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    return Group(Store(tmp_path), monkeypatch)


def test_a_route_that_is_made_again_counts_on(group: Group) -> None:
    """With another configuration; also what it has waited for the rate limits."""
    group.epochs = {"route": 1}
    group.routes.reconcile()
    route: Any = group.routes.get("route")
    route.limiter.throttled_seconds = 5.0
    group.ended("route")
    group.epochs = {"route": 2}
    group.routes.reconcile()
    assert group.routes.throttled_seconds == 5.0
    assert len(group.context.tallies) == 1


def test_nothing_is_left_of_a_connector_that_was_deleted(group: Group) -> None:
    """But for what others have counted, too; one that is made under its name begins at 0."""
    group.epochs = {"route": 1, "other": 1}
    group.routes.reconcile()
    route: Any = group.routes.get("route")
    route.limiter.throttled_seconds = 5.0
    group.ended("route")
    group.ended("other")
    del group.epochs["route"]
    group.routes.reconcile()
    assert [*group.context.tallies] == ["other/T/a/0"]
    assert group.routes.throttled_seconds == 5.0
    group.epochs["route"] = 2
    group.routes.reconcile()
    group.ended("route")
    group.made, group.epochs["route"] = 2, 3
    group.routes.reconcile()
    assert [*group.context.tallies] == ["other/T/a/0"]
