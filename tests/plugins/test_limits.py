"""Files of connectors stay in the directory that the worker's own settings name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.plugins import Record, TaskFailed
from replicator.plugins.file import FileSinkTask, FileSourceTask
from replicator.plugins.limits import ConnectorLimits, OutOfBounds, open_inside
from replicator.settings import Settings, load

BASE: dict[str, Any] = {"source": "a:1", "target": "b:1"}


def test_by_default_nothing_is_allowed(tmp_path: Path) -> None:
    assert ConnectorLimits.of(Settings(**BASE)) == ConnectorLimits()
    given = Settings(**BASE, file_connector_dir=tmp_path, sync="acl", standalone=True)
    assert ConnectorLimits.of(given) == ConnectorLimits(accounts=True, file_dir=tmp_path)


def test_a_link_that_was_changed_after_the_check_leads_nowhere(tmp_path: Path) -> None:
    files, secret = tmp_path / "files", tmp_path / "secret"
    files.mkdir()
    secret.write_text("canary")
    for path in (files / "last", files / "directory" / "secret"):
        (files / "directory").unlink(missing_ok=True)
        (files / "directory").symlink_to(tmp_path)
        (files / "last").unlink(missing_ok=True)
        (files / "last").symlink_to(secret)
        with pytest.raises(OutOfBounds, match="is not inside file_connector_dir"):
            open_inside(files, path, os.O_RDONLY)
    (files / "inner").symlink_to(files / "real")
    (files / "real").write_text("x")
    os.close(open_inside(files, files / "inner", os.O_RDONLY))


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OutOfBounds, match="is not a regular file"):
            open_inside(tmp_path, path, os.O_RDONLY)


async def test_tasks_look_again_when_they_open(tmp_path: Path) -> None:
    files, secret = tmp_path / "files", tmp_path / "secret"
    files.mkdir()
    secret.write_text("canary\n")
    (files / "f").symlink_to(secret)
    with pytest.raises(TaskFailed, match="is not inside file_connector_dir"):
        await FileSourceTask(files / "f", "t", files).poll()
    with pytest.raises(TaskFailed, match="is not inside file_connector_dir"):
        await FileSinkTask(files / "f", files).start()
    sink = FileSinkTask(files / "new", files)
    await sink.start()
    await sink.put([Record("t", b"line")])
    await sink.stop()
    assert (files / "new").read_bytes() == b"line\n"
    assert secret.read_text() == "canary\n"


@pytest.mark.parametrize("name", ["store_path", "acl.source_dir", "rest.token_file"])
def test_nothing_else_of_the_worker_lies_in_that_directory(tmp_path: Path, name: str) -> None:
    """Or a connector could write it: accounts to be synced, say."""
    given: dict[str, Any] = {**BASE, "file_connector_dir": str(tmp_path)}
    table, _, last = name.rpartition(".")
    given |= {table: {last: str(tmp_path / "x")}} if table else {last: str(tmp_path / "x")}
    with pytest.raises(ConfigError, match=f"{name} = .* is inside file_connector_dir"):
        load(given, file=None)
