"""A value that others would leave out, or that no file takes, is refused where it is put; all else is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.state.encoding import storable
from replicator.state.record import Kind
from replicator.state.record_types import Misfit
from replicator.state.store import Store
from tests.support.records import VALUES


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


UNFIT = [
    pytest.param({"file": "caf\udce9"}, "cannot be written as JSON", id="surrogate"),
    pytest.param({"caf\udce9": 1}, "cannot be written as JSON", id="surrogate in a key"),
    pytest.param({"at": object()}, "cannot be written as JSON", id="object"),
    pytest.param(_nested(20), "more than 16 levels deep", id="deep"),
    pytest.param(_nested(100_000), "cannot be written as JSON", id="very deep"),
]


@pytest.mark.parametrize(("position", "reason"), UNFIT)
def test_a_position_that_cannot_be_kept(position: dict[str, Any], reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        storable(Kind.POSITION, "c/0", {"position": position})


def test_a_position_is_kept_as_it_is_read_back() -> None:
    """What changes later in the plugin's own object does not change it."""
    inner = [1]
    kept = storable(Kind.POSITION, "c/0", {"position": {"at": (1, 2), "seen": inner}})
    inner.append(2)
    assert kept == {"position": {"at": [1, 2], "seen": [1]}}


@pytest.mark.parametrize(
    ("config", "reason"), [*UNFIT, pytest.param({"x" * 1001: 1}, "length <= 1000", id="long key")]
)
def test_a_connector_that_cannot_be_kept(tmp_path: Path, config: dict[str, Any], reason: str) -> None:
    """Its mistake is told to whoever makes it, and nothing else is lost."""
    store = Store(tmp_path)
    key, value = VALUES[Kind.CONNECTOR]
    store.put(Kind.CONNECTOR, key, value)
    with pytest.raises(ConfigError, match=f"the configuration of connector 'other' cannot be kept .*{reason}"):
        store.put(Kind.CONNECTOR, "other", {**value, "config": config})
    store.write(store.snapshot())
    store.close()
    again = Store(tmp_path)
    assert again.state.items(Kind.CONNECTOR) == {key: value}
    again.close()
