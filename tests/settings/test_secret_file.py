"""A secret in a file of its own is read, unless others can use the file or there is no secret in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.settings.secret_file import others_can_use, read_secret, write_secret


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("canary\n")
    path.chmod(0o600)
    return path


def test_it_is_read_without_the_line_end(path: Path) -> None:
    assert read_secret("x", path) == "canary"


@pytest.mark.parametrize(
    ("owner", "us", "mode", "open_to_others"),
    [
        (0, 10001, 0o440, False),
        (0, 10001, 0o400, False),
        (0, 10001, 0o444, True),
        (0, 10001, 0o460, True),
        (10001, 10001, 0o440, True),
        (0, 0, 0o440, True),
    ],
)
def test_a_secret_that_kubernetes_mounts(
    owner: int, us: int, mode: int, open_to_others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's, readable by the pod's group, and by nobody else."""
    monkeypatch.setattr("os.geteuid", lambda: us)
    found: Any = SimpleNamespace(st_uid=owner, st_gid=0, st_mode=stat.S_IFREG | mode)
    assert others_can_use(found) == open_to_others


def test_root_may_use_what_it_has_given_to_the_group_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the service itself may: chmod 600, the way out, would take it away from that."""
    for us in (0, 990):
        monkeypatch.setattr("os.geteuid", lambda us=us: us)
        found: Any = SimpleNamespace(st_uid=0, st_gid=990, st_mode=stat.S_IFREG | 0o640)
        assert not others_can_use(found)
        assert others_can_use(SimpleNamespace(**{**vars(found), "st_mode": stat.S_IFREG | 0o644}))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o644, 0o601])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int) -> None:
    """As ssh does; the way out is one command."""
    path.chmod(mode)
    with pytest.raises(ConfigError, match="can be read by others") as caught:
        read_secret("source.secret_key_file", path)
    assert f"source.secret_key_file = {str(path)!r}" in str(caught.value)
    assert "chmod 600" in caught.value.hint


def _make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "cannot be read (No such file"),
        (lambda path: (path.unlink(), path.mkdir(0o755)), "is not a regular file"),
        (_make_pipe, "is not a regular file"),
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


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xef\xbb\xbfcanary\n", "begins with a byte order mark"),
        (b"can\x00ary\n", "has control characters"),
        (b"can\x1b[2Jary\n", "has control characters"),
        (b"canary\nother\n", "has several lines"),
        (b"canary\r\nother", "has several lines"),
        (b"canary\x85other", "is not text"),
        ("canary\u2028other".encode(), "has several lines"),
        (b"c" * 5000, "has more than 4096 bytes"),
    ],
)
def test_what_no_editor_shows_is_refused(path: Path, data: bytes, words: str) -> None:
    """It would be a part of the secret, and no broker would say why it does not fit."""
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=words) as caught:
        read_secret("source.secret_key_file", path)
    assert "canary" not in str(caught.value)


def test_a_secret_is_made(tmp_path: Path) -> None:
    """For its owner only, never over another file, never the same twice."""
    one, two = tmp_path / "one", tmp_path / "two"
    for each in (one, two):
        write_secret(each)
        assert each.stat().st_mode & 0o777 == 0o600
        assert len(read_secret("x", each, least=32)) >= 43
    assert one.read_text() != two.read_text()
    with pytest.raises(ConfigError, match="exists and is not overwritten"):
        write_secret(one)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="exists and is not overwritten"):
        write_secret(tmp_path / "link")
    with pytest.raises(ConfigError, match="No such file or directory"):
        write_secret(tmp_path / "none" / "secret")


def test_a_short_one_is_refused_where_it_can_be_guessed(path: Path) -> None:
    with pytest.raises(ConfigError, match="has less than 32 characters"):
        read_secret("x", path, least=32)
