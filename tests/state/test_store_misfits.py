"""Files of state with records that do not fit: all else in them is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator.state import state_file
from replicator.state.record import Kind
from replicator.state.store import Store
from tests.support.records import VALUES


@pytest.mark.parametrize(
    ("name", "kind", "key", "held"),
    [
        ("taskConfig.json", "assignment", "", {"version": [10**9, "evil"], "value": {}}),
        ("taskConfig.json", "task", "route/orders", {"version": [10**9, "evil"], "value": {"queues": 5}}),
        ("offset.json", "offset", "T/east/a/3", {"version": [1, "w"], "value": {"x": 1}}),
        ("position.json", "position", "T/east/a/3", {"version": 5, "value": None}),
        ("position.json", "sync", "route/status", {"version": [1, "w"], "value": 5}),
        ("connectorConfig.json", "connector", "route", {"value": None}),
        ("connectorConfig.json", "connector", "route", 5),
    ],
)
def test_a_record_that_does_not_fit_is_skipped_and_the_others_are_used(
    tmp_path: Path, name: str, kind: str, key: str, held: object
) -> None:
    """Whatever an earlier version or a person has left in a file, no start fails by it."""
    good, value = VALUES[Kind(kind)]
    there = {"version": [1, "w"], "value": value}
    state_file.write(tmp_path / name, {kind: {key: held, good: there} if good != key else {key: held}})
    store = Store(tmp_path)
    assert store.state.get(Kind(kind), key) is None
    assert store.state.get(Kind(kind), good) == (value if good != key else None)
    assert store.skipped.counts == {"topic": 0, "file": 1}
    store.close()


@pytest.mark.parametrize("content", [5, [], {"task": 5}, {"task": [1]}, {"unknown": {}}])
def test_a_file_of_another_form_is_as_none(tmp_path: Path, content: object) -> None:
    state_file.write(tmp_path / "taskConfig.json", content)
    store = Store(tmp_path)
    assert store.queue_maps("route") == {}
    store.close()


@pytest.mark.parametrize("content", [5, [], {"worker": 5, "source_id": ["east"]}, {"worker": None}])
def test_an_identity_of_another_form_is_as_none(tmp_path: Path, content: object) -> None:
    state_file.write(tmp_path / "identity.json", content)
    store = Store(tmp_path)
    assert store.identity() == {}
    store.close()
