"""Who changed which connector is in the audit log, from where the next process knows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from replicator.observe.audit import Audit
from replicator.plugins.limits import ConnectorLimits
from replicator.settings import RouteSettings
from replicator.state.audited_connectors import AuditedConnectors
from replicator.state.connector_configs import Connectors, State
from replicator.state.record import Kind
from replicator.state.store import Store

ACTOR = "page 10.0.0.7 (operate)"


class Changed:
    """A worker's connectors, and what its audit log says of them."""

    def __init__(self, directory: Path) -> None:
        self.audit = Audit(directory / "audit.jsonl")
        self.store = Store(directory)
        self.store.state.worker = "w1"
        self.connectors: Connectors = AuditedConnectors(self.store, ConnectorLimits(), self.audit)

    def told(self) -> list[dict[str, Any]]:
        """Without what each entry has."""
        entries = self.audit.asked_for(100)
        assert {entry.pop("worker") for entry in entries} <= {"w1"}
        assert all(entry.pop("at") > 1e9 and entry.pop("connector") == "route" for entry in entries)
        return entries


@pytest.fixture
def changed(tmp_path: Path) -> Iterator[Changed]:
    made = Changed(tmp_path)
    yield made
    made.store.close()
    made.audit.close()


def test_each_change_by_people_is_told_with_who_asked_for_it(changed: Changed) -> None:
    connectors = changed.connectors
    with bound_contextvars(actor=ACTOR):
        connectors.create("route", {"topics": "a"})
        connectors.update("route", {"topics": "b"})
        connectors.update("route", {"topics": "b"})  # which changes nothing
        connectors.set_state("route", State.PAUSED)
        connectors.set_state("route", State.RUNNING)
        connectors.set_state("route", State.STOPPED, reason="a failover switches to the target")
        connectors.restart_task("route", "orders")
        connectors.restart("route")
        connectors.set_state("route", State.RUNNING)
        connectors.fail_over("route", 1_700_000_000_000, alone=False)
        connectors.delete("route")
        connectors.delete("route")
    told = changed.told()
    assert {entry.pop("actor") for entry in told} == {ACTOR}
    assert told[0].pop("after")["topics"] == ["a"]
    assert told[-1].pop("before")["topics"] == ["b"]
    assert told == [
        {"what": "connector created"},
        {"what": "connector has a new configuration", "before": {"topics": ["a"]}, "after": {"topics": ["b"]}},
        {"what": "connector paused", "before": "RUNNING", "after": "PAUSED"},
        {"what": "connector resumed", "before": "PAUSED", "after": "RUNNING"},
        {
            "what": "connector stopped",
            "before": "RUNNING",
            "after": "STOPPED",
            "reason": "a failover switches to the target",
        },
        {"what": "task restarted", "task": "orders"},
        {"what": "connector restarted"},
        {"what": "connector resumed", "before": "STOPPED", "after": "RUNNING"},
        {
            "what": "connector stopped",
            "before": "RUNNING",
            "after": "STOPPED",
            "reason": "its source is declared dead",
        },
        {"what": "connector deleted"},
    ]


def test_the_first_change_after_an_upgrade_is_what_it_is(changed: Changed) -> None:
    """A record of an older version lacks options that there are now: they were not changed."""
    changed.connectors.create("route", {"topics": "a"})
    value = changed.store.state.get(Kind.CONNECTOR, "route")
    assert value is not None
    older = {name: each for name, each in value["config"].items() if name != "compression_type"}
    changed.store.put(Kind.CONNECTOR, "route", {**value, "config": older})
    with bound_contextvars(actor=ACTOR):
        changed.connectors.set_state("route", State.PAUSED)
        changed.connectors.restart("route")
        changed.connectors.update("route", {"topics": "b"})
    assert [(entry["what"], entry.get("before")) for entry in changed.told()] == [
        ("connector paused", "RUNNING"),
        ("connector restarted", None),
        ("connector has a new configuration", {"topics": ["a"]}),
    ]


def test_what_a_worker_brings_is_of_its_own_settings(changed: Changed) -> None:
    changed.connectors.bring("route", RouteSettings(topics="a"))
    changed.connectors.bring("route", RouteSettings(topics="b"))
    changed.connectors.set_state("route", State.PAUSED)  # which nobody has asked for
    assert [(entry["what"], entry["actor"]) for entry in changed.told()] == [
        ("connector created", "the worker's own settings"),
        ("connector has a new configuration", "the worker's own settings"),
    ]
