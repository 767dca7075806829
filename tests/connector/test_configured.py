"""Whether a connector is still what a long piece of work has begun for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.connector.configured import Configured
from replicator.errors import StartupError
from replicator.state.record import Kind
from replicator.state.store import Store

VALUE: dict[str, Any] = {
    "config": {"topics": ["orders"], "rate_messages": 0},
    "state": "RUNNING",
    "origin": "rest",
    "epoch": 1,
    "task_epochs": {},
    "made": 3,
}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"config": {"topics": ["orders"], "rate_messages": 5}}, True),
        ({"task_epochs": {"orders": 1}}, True),
        ({"config": {"topics": ["bills"], "rate_messages": 0}}, False),
        ({"state": "STOPPED"}, False),
        ({"epoch": 2}, False),
        ({"made": 4}, False),
    ],
)
def test_what_changes_a_connector(tmp_path: Path, change: dict[str, Any], *, same: bool) -> None:
    """Rates and single tasks do not: what is made for it is the same."""
    store = Store(tmp_path)
    store.put(Kind.CONNECTOR, "route", VALUE)
    configured = Configured("route", store)
    version = configured.version
    store.put(Kind.CONNECTOR, "route", VALUE | change)
    if same:
        configured.refuse_changed(version)
    else:
        with pytest.raises(StartupError, match="connector route was deleted, stopped or changed"):
            configured.refuse_changed(version)
    store.put(Kind.CONNECTOR, "route", None)
    assert configured.version is None
    store.close()
