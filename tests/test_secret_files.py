"""Files that are read again: when they have changed and rest, each change once, and never half of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from replicator.errors import ConfigError
from replicator.secret_files import SecretFiles


def test_a_change_is_used_once_it_rests(tmp_path: Path) -> None:
    """Two files that belong together are written one after the other, and read when both are there."""
    cert, key = tmp_path / "cert", tmp_path / "key"
    cert.write_text("old")
    key.write_text("old")
    used: list[tuple[str, str]] = []
    files = SecretFiles()
    files.watch("source", (cert, None, key), lambda: used.append((cert.read_text(), key.read_text())))
    files.check()
    cert.write_text("new one")
    files.check()
    key.write_text("new one")
    files.check()
    assert used == []
    files.check()
    files.check()
    assert used == [("new one", "new one")]


def test_one_that_comes_and_goes(tmp_path: Path) -> None:
    """A file may be away for a moment, and be replaced by another of the same size."""
    secret = tmp_path / "secret"
    secret.write_text("one")
    used: list[bool] = []
    files = SecretFiles()
    files.watch("target", (secret,), lambda: used.append(secret.exists()))
    secret.unlink()
    files.check()
    other = tmp_path / "other"
    other.write_text("two")
    other.replace(secret)
    files.check()
    files.check()
    assert used == [True]


def test_what_was_refused_for_its_mode_is_used_once_others_cannot_read_it(tmp_path: Path) -> None:
    """The error says to change the mode, which changes neither what is in the file nor when it was written."""
    secret = tmp_path / "secret"
    secret.write_text("one")
    used: list[str] = []

    def renew() -> None:
        if secret.stat().st_mode & 0o077:
            raise ConfigError("others can read it", hint="chmod 600 it")
        used.append(secret.read_text())

    files = SecretFiles()
    files.watch("source", (secret,), renew)
    secret.write_text("two")
    secret.chmod(0o644)
    files.check()
    files.check()
    assert used == []
    secret.chmod(0o600)
    files.check()
    files.check()
    assert used == ["two"]


def test_what_cannot_be_used_is_told_once(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one")

    def refuse() -> None:
        raise ConfigError("secret_key_file = 'secret' is empty", hint="write the secret into it")

    files = SecretFiles()
    files.watch("source", (secret,), refuse)
    secret.write_text("")
    with capture_logs() as logs:
        for _ in range(4):
            files.check()
    (told,) = logs
    assert (told["log_level"], told["of"]) == ("error", "source")
    assert "secret_key_file = 'secret' is empty" in told["reason"]


def test_nothing_is_watched_where_nothing_is_named() -> None:
    files = SecretFiles()
    files.watch("source", (None, None), lambda: pytest.fail("nobody asked for it"))
    files.check()
    files.check()
