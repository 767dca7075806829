"""An archive of classes spares a JVM work, and never keeps one from starting."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from replicator.sandbox.class_archive import ClassArchive
from replicator.sandbox.java import java


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar without classes, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with zipfile.ZipFile(tmp_path / "some.jar", "w") as file:
        file.writestr("some.txt", "text")
    return tmp_path / "some.jar"


def started(archive: ClassArchive, record: Path, jar: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A JVM that prints its version and where it took each class from."""
    flags: Sequence[str] = (*archive.flags(record), *more, "-Xlog:class+load")
    return subprocess.run(
        [str(java()), *flags, "-cp", str(jar), "-version"], capture_output=True, text=True, check=False
    )


def made(jar: Path, record: Path) -> ClassArchive:
    archive = ClassArchive("some", [jar])
    assert started(archive, record, jar).returncode == 0
    archive.make([record])
    assert archive.path.exists()
    return archive


def test_is_made_of_what_a_jvm_has_loaded(jar: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    archive = ClassArchive("some", [jar])
    assert archive.wanted
    without = started(archive, record, jar)
    assert "shared objects file" not in without.stdout
    with record.open("a") as file:
        file.write("java/lang/Strin")  # a JVM that was killed meanwhile
    archive.make([record])
    assert not archive.wanted
    within = started(archive, tmp_path / "another", jar, "-Xshare:on")  # which fails where it is not used
    assert within.returncode == 0, within.stdout
    assert within.stdout.count("shared objects file") > 300
    assert not (tmp_path / "another").exists()
    assert {each.suffix for each in archive.path.parent.iterdir()} == {".jsa", ".lock"}


@pytest.mark.parametrize("how", ["garbage", "cut"])
def test_a_jvm_starts_with_one_that_is_of_no_use(how: str, jar: Path, tmp_path: Path) -> None:
    archive = made(jar, tmp_path / "record")
    archive.path.chmod(0o600)
    if how == "garbage":
        archive.path.write_bytes(os.urandom(100_000))
    else:
        os.truncate(archive.path, archive.path.stat().st_size // 2)
    ended = started(archive, tmp_path / "record", jar)
    assert ended.returncode == 0, ended.stdout
    assert "shared objects file" not in ended.stdout


def test_another_jar_needs_another_archive(jar: Path) -> None:
    before = ClassArchive("some", [jar])
    os.utime(jar, (1, 1))
    assert ClassArchive("some", [jar]).path != before.path


def test_one_process_makes_it(jar: Path, tmp_path: Path) -> None:
    archive = ClassArchive("some", [jar])
    started(archive, tmp_path / "record", jar)
    archive.path.parent.mkdir(parents=True)
    with archive.path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive.make([tmp_path / "record"])
        assert archive.wanted
    archive.make([tmp_path / "record"])
    assert not archive.wanted


def test_where_none_can_be_made_nobody_tries_again(jar: Path, tmp_path: Path) -> None:
    (tmp_path / "record").write_text("java/lang/String super: what\n")
    archive = ClassArchive("some", [jar])
    archive.make([tmp_path / "record"])
    assert "super: what" in archive.failure.read_text()
    assert not archive.wanted
    assert archive.flags(tmp_path / "record") == ()


def test_a_cache_that_cannot_be_written_is_no_error(jar: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    archive = ClassArchive("some", [jar])
    archive.make([])
    assert archive.wanted


def test_what_nobody_has_used_for_long_is_deleted(jar: Path, tmp_path: Path) -> None:
    archive = ClassArchive("some", [jar])
    archive.path.parent.mkdir(parents=True)
    old, young, other = (archive.path.with_name(f"{name}.jsa") for name in ("some-1", "some-2", "other-1"))
    for each in (old, young, other):
        each.touch()
    for each in (old, other):
        os.utime(each, (time.time() - 40 * 86400,) * 2)
    made(jar, tmp_path / "record")
    assert [old.exists(), young.exists(), other.exists()] == [False, True, True]
