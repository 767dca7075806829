"""Whose an archive's messages are: its cluster's, unless somebody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.operate.jobs.archive import Archive, Contents
from replicator.operate.jobs.restore import _say_whose, _settings
from replicator.settings import ENV_PREFIX, Settings
from replicator.spark.jobs.location import Location

TARGET = {"target": {"namesrv": "t:1"}}


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)


def archived(directory: Path, id_: str | None) -> Archive:
    contents = Contents(id=id_, cluster="c", namesrv="n:1", selection={}, topics={}, slices=[])
    return Archive(Location(str(directory)), contents)


def chosen(flags: dict[str, Any], archive: Archive, file: Path | None = None) -> tuple[Settings, list[Any]]:
    """The settings, and what is logged about them."""
    with capture_logs() as logs:
        settings = _settings(flags, archive, file)
        _say_whose(settings, archive)
    return settings, logs


def test_an_archive_says_what_its_cluster_is(tmp_path: Path) -> None:
    settings, logs = chosen(TARGET, archived(tmp_path, "east"))
    assert (settings.source.namesrv, settings.source.id, logs) == (["n:1"], "east", [])
    settings, logs = chosen(TARGET, archived(tmp_path, None))
    assert (settings.source.namesrv, settings.source.id, logs) == (["n:1"], None, [])


@pytest.mark.parametrize("given", ["flag", "environment", "file"])
@pytest.mark.parametrize("had", ["east", None])
def test_what_the_user_says_of_its_cluster_wins(
    given: str, had: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is said; and the log says it where the archive has another id."""
    flags: dict[str, Any] = {**TARGET}
    file = None
    if given == "flag":
        flags["source"] = {"id": "west"}
    elif given == "environment":
        monkeypatch.setenv("REPLICATOR_SOURCE__ID", "west")
    else:
        file = tmp_path / "route.toml"
        file.write_text("[source]\nid = 'west'\nnamesrv = 'm:1'\n")
    settings, logs = chosen(flags, archived(tmp_path, had), file)
    assert settings.source.id == "west"
    assert settings.source.namesrv == (["m:1"] if given == "file" else ["n:1"])
    assert [(line["source_id"], line["archive_id"]) for line in logs] == ([] if had is None else [("west", had)])
