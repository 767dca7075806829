"""What a start finds where the source is away: the group that the mirror names, or that the worker has kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.connector.context import NoSource
from replicator.errors import StartupError
from replicator.group.known_group import UnreadMirror
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state.store import Store
from replicator.worker import found
from replicator.worker.found import Clusters, Found, find


async def find_without_a_source(store: Store, monkeypatch: pytest.MonkeyPatch, error: StartupError) -> Found:
    """`error` is what the search for the group in the mirror ends with."""

    async def read_clusters(*_: object) -> Identity:
        raise NoSource("the source is away")

    async def find_group(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(found, "read_clusters", read_clusters)
    monkeypatch.setattr(found, "find_group", find_group)
    clusters: Any = Clusters(*[None] * 4)  # type: ignore[arg-type]
    settings = Settings.model_validate({"source": {"namesrv": ["a:1"]}, "target": {"namesrv": ["t:1"]}})
    return await find(settings, clusters, store, lambda: pytest.fail("no client is needed"))


async def test_a_worker_with_its_files_needs_no_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it cannot be read keeps it from standing by no more than that it is not there."""
    store = Store(tmp_path)
    store.save_identity({"source_id": "east", "target_id": "west", "group": "east-west"})
    standby = await find_without_a_source(store, monkeypatch, UnreadMirror("the mirror cannot be read"))
    assert (standby.group, standby.identity) == ("east-west", Identity("east", "west"))
    assert standby.standby == "the source is away"


@pytest.mark.parametrize("kept", [True, False])
async def test_a_start_that_cannot_be_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool) -> None:
    """Where nothing else names the group, and where the mirror names several."""
    store = Store(tmp_path)
    if kept:
        store.save_identity({"source_id": "east", "target_id": "west", "group": "east-west"})
    error = StartupError("several groups") if kept else UnreadMirror("the mirror cannot be read")
    with pytest.raises(StartupError, match=error.message):
        await find_without_a_source(store, monkeypatch, error)
