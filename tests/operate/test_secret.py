"""`replicator secret FILE` makes a secret that workers take."""

from __future__ import annotations

from pathlib import Path

from replicator.settings.secret_file import read_secret
from tests.support.worker import command


def test_it_is_made_once_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    ended = command({}, "secret", str(file))
    assert ended.returncode == 0, ended.stderr
    assert "worker_group_secret_file" in ended.stdout
    assert read_secret("x", file, least=32) not in ended.stdout
    again = command({}, "secret", str(file))
    assert again.returncode == 78
    assert "exists and is not overwritten: name a new file" in again.stderr
