"""A secret in a file of its own is read, unless others can use the file or there is no secret in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.errors import ConfigError
from replicator.settings.secret_file import read_secret


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("canary\n")
    path.chmod(0o600)
    return path


def test_it_is_read_without_the_line_end(path: Path) -> None:
    assert read_secret("x", path) == "canary"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o644, 0o601])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int) -> None:
    """As ssh does; the way out is one command."""
    path.chmod(mode)
    with pytest.raises(ConfigError, match="can be read by others") as caught:
        read_secret("source.secret_key_file", path)
    assert f"source.secret_key_file = {str(path)!r}" in str(caught.value)
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "cannot be read (No such file"),
        (lambda path: (path.unlink(), path.mkdir(0o700)), "cannot be read (Is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "is not text"),
        (lambda path: path.write_text(" \n"), "is empty"),
    ],
)
def test_a_file_that_is_of_no_use_is_refused(path: Path, damage: Callable[[Path], object], words: str) -> None:
    """Missing, a directory, binary, empty: each says so, with the file's name."""
    damage(path)
    with pytest.raises(ConfigError) as caught:
        read_secret("source.secret_key_file", path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.hint
