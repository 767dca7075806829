"""Connectors whose changes are in the audit log, with who has asked for them: events are gone with the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.observe.audit import Audit
from replicator.plugins.limits import ConnectorLimits
from replicator.state.connector import Connector, State, differences
from replicator.state.connector_configs import Connectors
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
        before = self.all().get(connector.name)
        put = super()._put(connector, unseen=unseen, reason=reason)
        self._note(connector.name, *_change(before, connector, reason))
        return put

    def delete(self, name: str) -> None:
        before = self._store.state.get(Kind.CONNECTOR, name)
        super().delete(name)
        if before is not None:
            self._note(name, "connector deleted", {"before": before["config"]})

    def _note(self, name: str, what: str, told: Mapping[str, Any]) -> None:
        self._audit.note_change(what, self._store.state.worker, connector=name, **told)


def _change(before: Connector | None, after: Connector, reason: str) -> tuple[str, dict[str, Any]]:
    """What makes one of another, in the words of the log, with what an auditor asks for.

    Args:
        before: None: there was none that this worker understands.
    """
    if before is None:
        return "connector created", {"after": after.config}
    states: dict[str, Any] = {"before": before.state, "after": after.state} | ({"reason": reason} if reason else {})
    if after.failed_over != before.failed_over:
        return "connector stopped", states
    if after.state is not before.state:
        return f"connector {_STATES[after.state]}", states
    if differ := differences(before, after):
        old, new = before.config, after.config
        return "connector has a new configuration", {
            "before": {name: old.get(name) for name in differ},
            "after": {name: new.get(name) for name in differ},
        }
    return _restart(before.task_epochs, after.task_epochs)


def _restart(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, dict[str, Any]]:
    tasks = [task for task, epoch in after.items() if epoch != before.get(task, 0)]
    return ("task restarted", {"task": tasks[0]}) if tasks else ("connector restarted", {})
