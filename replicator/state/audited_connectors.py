"""Connectors whose changes are in the audit log, with who has asked for them: events are gone with the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.observe.audit import Audit
from replicator.plugins.limits import ConnectorLimits
from replicator.state.connector import Connector, State
from replicator.state.connector_configs import OPERATOR, Connectors
from replicator.state.record import Kind
from replicator.state.store import Store

__all__ = ["AuditedConnectors"]

_STATES = {State.RUNNING: "resumed", State.PAUSED: "paused", State.STOPPED: "stopped"}


class AuditedConnectors(Connectors):
    """The connectors of a worker that writes what is changed here to `audit`."""

    def __init__(self, store: Store, limits: ConnectorLimits, audit: Audit) -> None:
        super().__init__(store, limits)
        self._audit = audit

    def _put(self, connector: Connector, *, unseen: int = 0, reason: str = "") -> Connector:
        before = self._store.state.get(Kind.CONNECTOR, connector.name)
        put = super()._put(connector, unseen=unseen, reason=reason)
        self._note(connector.name, before, self._store.state.get(Kind.CONNECTOR, connector.name))
        return put

    def delete(self, name: str) -> None:
        before = self._store.state.get(Kind.CONNECTOR, name)
        super().delete(name)
        if before is not None:
            self._note(name, before, None)

    def _note(self, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        what, told = _change(before or {}, after or {})
        own = after is not None and after["origin"] == "command line" and what in (_CREATED, _CONFIGURED)
        worker = self._store.state.worker
        self._audit.note_change(what, worker, actor=OPERATOR if own else "", connector=name, **told)


_CREATED = "connector created"
_CONFIGURED = "connector has a new configuration"


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What makes one value of another, in the words of the log, with what an auditor asks for."""
    if not after:
        return "connector deleted", {"before": before["config"]}
    if not before:
        return _CREATED, {"after": after["config"]}
    states = {"before": before["state"], "after": after["state"]}
    if after["reason"]:
        states["reason"] = after["reason"]
    if after["failed_over"] != before.get("failed_over", 0):
        return "connector stopped", states
    old, new = before["config"], after["config"]
    if differ := [name for name in {**old, **new} if old.get(name) != new.get(name)]:
        return _CONFIGURED, {
            "before": {name: old.get(name) for name in differ},
            "after": {name: new.get(name) for name in differ},
        }
    if states["before"] != states["after"]:
        return f"connector {_STATES[after['state']]}", states
    return _restart(before.get("task_epochs", {}), after["task_epochs"])


def _restart(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, dict[str, Any]]:
    tasks = [task for task, epoch in after.items() if epoch != before.get(task, 0)]
    return ("task restarted", {"task": tasks[0]}) if tasks else ("connector restarted", {})
