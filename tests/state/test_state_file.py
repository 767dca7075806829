"""State files: the old one or the new one, never a mixture; what cannot be trusted is set aside and said."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from replicator.errors import StartupError
from replicator.state import state_file
from replicator.state.store import Store

CONTENT = {"T/east-a/0": {"position": 17, "start": 0}, "ü": [1, 2.5, None, True, "x"], "empty": {}}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "position.json"


def read(path: Path) -> tuple[Any, list[str]]:
    """What is read, and the reasons of files that were set aside."""
    with capture_logs() as logs:
        content = state_file.read(path)
    for entry in logs:
        assert entry["log_level"] == "warning"
        assert Path(entry["kept_as"]).exists()
    return content, [entry["reason"] for entry in logs]


def aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.corrupt-*"))


def test_there_is_nothing_before_the_first_write(path: Path) -> None:
    """And that is not a mistake."""
    assert read(path) == (None, [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_what_is_written_is_read(path: Path, content: object) -> None:
    """Any JSON, over the content before."""
    state_file.write(path, content)
    assert read(path) == (content, [])
    assert list(path.parent.iterdir()) == [path]


def test_a_person_can_read_it(path: Path) -> None:
    """Indented JSON with version and checksum, for its owner only."""
    state_file.write(path, CONTENT)
    text = path.read_text()
    document = json.loads(text)
    assert document["version"] == state_file.VERSION
    assert document["content"] == CONTENT
    assert '\n    "ü": [\n' in text
    assert text.endswith("}\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_checksum_is_that_of_the_compact_content(path: Path) -> None:
    """So that other programs can check it."""
    state_file.write(path, CONTENT)
    compact = json.dumps(CONTENT, separators=(",", ":"), ensure_ascii=False).encode()
    assert json.loads(path.read_text())["sha256"] == hashlib.sha256(compact).hexdigest()


def test_a_crash_before_the_rename_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was half written lies beside it, is never read, and does not hinder the next write."""
    state_file.write(path, {"old": 1})

    def crash(*_: object) -> None:
        raise KeyboardInterrupt  # nothing after it runs, as after kill -9

    with monkeypatch.context() as context:
        context.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            state_file.write(path, {"new": 1})
    assert len(list(path.parent.iterdir())) == 2
    assert read(path) == ({"old": 1}, [])
    state_file.write(path, {"new": 2})
    assert read(path) == ({"new": 2}, [])
    assert len(list(path.parent.iterdir())) == 2


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error goes to the caller, and nothing half written stays."""
    state_file.write(path, {"old": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            state_file.write(path, {"new": 1})
    assert read(path) == ({"old": 1}, [])
    assert list(path.parent.iterdir()) == [path]


def test_a_planted_link_is_not_followed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write the directory must not make us write elsewhere."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    monkeypatch.setattr(state_file, "_numbers", itertools.count(17))
    path.with_name(f".{path.name}.{os.getpid()}.17").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        state_file.write(path, CONTENT)
    assert victim.read_text() == "untouched"


def test_of_two_writes_at_once_the_later_one_wins(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the disk keeps the earlier one for longer: neither spoils the other, and nothing of it stays."""
    held, may_go_on, fsync = threading.Event(), threading.Event(), os.fsync

    def slow_at_first(descriptor: int) -> None:
        if not held.is_set():
            held.set()
            assert may_go_on.wait(20)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow_at_first)
    with ThreadPoolExecutor() as threads:
        earlier = threads.submit(state_file.write, path, {"earlier": list(range(1000))})
        assert held.wait(20)
        state_file.write(path, {"later": 1})
        assert read(path) == ({"later": 1}, [])
        may_go_on.set()
        earlier.result(20)
    assert read(path) == ({"later": 1}, [])
    assert list(path.parent.iterdir()) == [path]


def test_everything_is_on_disk_before_it_is_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's bytes first, then the name, then the directory."""
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor: int) -> None:
        done.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")  # noqa: PTH112
        fsync(descriptor)

    def noted_replace(one: Path, other: Path) -> Path:
        done.append("rename")
        return replace(one, other)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    state_file.write(path, CONTENT)
    assert done == ["file", "rename", "directory"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"17",
        b"{}",
        b'{"version":1,"content":{}}',
        b'{"version":null,"sha256":"x","content":{}}',
        b'{"version":"2","sha256":"x","content":{}}',
        b'{"version":1,"sha256":"x","content":"\xff"}',
        b"\xff\xfe\x00",
        b"\x00" * 4096,
        b"[" * 200_000,
        b"not JSON at all",
    ],
)
def test_what_is_no_state_file_is_set_aside(path: Path, data: bytes) -> None:
    """With a warning; its bytes are kept, and the next write starts over."""
    path.write_bytes(data)
    assert read(path) == (None, ["it is not a state file"])
    (kept,) = aside(path)
    assert kept.read_bytes() == data
    assert not path.exists()
    state_file.write(path, CONTENT)
    assert read(path) == (CONTENT, [])


def test_a_truncated_file_is_set_aside(path: Path) -> None:
    """Wherever it was cut off."""
    state_file.write(path, CONTENT)
    data = path.read_bytes()
    for end in range(len(data) - 2):
        path.write_bytes(data[:end])
        content, reasons = read(path)
        assert content is None
        assert len(reasons) == 1


def test_a_flipped_bit_never_gives_other_content(path: Path) -> None:
    """Set aside, refused as of another version, or of no effect; everywhere in the file."""
    state_file.write(path, CONTENT)
    data = path.read_bytes()
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                content, reasons = read(path)
            except StartupError as error:
                assert "version" in str(error)  # noqa: PT017 - most damage raises nothing
                continue
            assert content == CONTENT if not reasons else content is None


def test_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    """A guess at its meaning could lose messages; the error names file, versions and the way out."""
    text = json.dumps({"version": state_file.VERSION + 1, "sha256": "x", "content": {}})
    path.write_text(text)
    with pytest.raises(StartupError, match=rf"{path} has version {state_file.VERSION + 1}") as caught:
        state_file.read(path)
    assert "newer version" in caught.value.hint
    assert path.read_text() == text
    assert aside(path) == []


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """It may be good: starting without it would be wrong."""
    (tmp_path / "position.json").mkdir()
    with pytest.raises(StartupError, match=r"position.json cannot be read"):
        state_file.read(tmp_path / "position.json")


def test_a_file_that_cannot_be_set_aside_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a read-only directory."""
    path.write_bytes(b"garbage")

    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "replace", read_only)
    with pytest.raises(StartupError, match="and cannot be set aside") as caught:
        state_file.read(path)
    assert caught.value.hint


def test_ids_that_cannot_be_written_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full at a first start; once there is room they are written."""
    store, ids = Store(tmp_path), {"source_id": "east"}

    def full(*_: object) -> None:
        raise OSError(27, "File too large")

    with monkeypatch.context() as context:
        context.setattr(state_file, "write", full)
        with pytest.raises(StartupError, match="cannot be written"):
            store.save_identity(ids)
    assert store.identity() == {}
    store.save_identity(ids)
    store.close()
    assert state_file.read(tmp_path / "identity.json") == ids


def test_a_directory_that_was_removed_meanwhile_is_a_line_and_no_crash(tmp_path: Path) -> None:
    """Somebody cleans up while the worker still drains."""
    store = Store(tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    with capture_logs() as logs:
        store.close()
    assert [entry["event"] for entry in logs] == ["the state directory was removed while it was in use"]
    Store(tmp_path / "store").close()
    assert not (tmp_path / "store").exists(), "made for nothing"
