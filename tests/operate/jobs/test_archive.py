"""Two runs of `export` into one directory: one of them ends, and no file that counts is missing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from replicator.errors import ConfigError, StartupError
from replicator.operate.jobs import export
from replicator.operate.jobs.archive import Archive, Contents
from replicator.routing.queue_map import Queue
from replicator.spark.jobs.archive import File, Slice, partition
from replicator.spark.jobs.export import Exported
from replicator.spark.jobs.location import Location


def begun(directory: Path) -> Archive:
    """An archive of two queues, none of which is written yet."""
    slices = [Slice("T", Queue("a", i), 0, 9) for i in range(2)]
    contents = Contents(id=None, cluster="c", namesrv="n:1", selection={}, topics={}, slices=slices)
    return Archive.begin(Location(str(directory)), contents)


def again(directory: Path) -> Archive:
    """As the next run finds it."""
    found = Archive.read(Location(str(directory)))
    assert found is not None
    return found


def written(directory: Path, number: int, attempt: str) -> Exported:
    """The outcome of an attempt, with its file."""
    part = Slice("T", Queue("a", number), 0, 9)
    path = f"{partition('T', 0)}/{part.file(0, attempt)}"
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    (directory / path).write_bytes(b"12345")
    return Exported(part.key, 0, 9, messages=9, files=[File(path, 9, 0, 8, 5)])


def test_a_run_ends_when_another_one_has_begun(tmp_path: Path) -> None:
    """Neither its outcomes count any more, nor does it remove what the other one writes."""
    first = begun(tmp_path)
    first.add(written(tmp_path, 0, "0000000a"))
    second = again(tmp_path)
    second.claim()
    second.add(written(tmp_path, 1, "0000000b"))
    for change in (first.close, first.sweep):
        with pytest.raises(StartupError, match="another export has written"):
            change()
    second.close()
    second.sweep()
    second.reopen_missing()
    assert [part.key for part in again(tmp_path).open] == ["T/a/0"]
    assert [path.name[-16:] for path in tmp_path.rglob("*.parquet")] == ["0000000b.parquet"]


def test_a_queue_whose_files_were_removed_is_open_again(tmp_path: Path) -> None:
    """By a run that began when this one was writing its manifest."""
    archive = begun(tmp_path)
    for number in range(2):
        archive.add(written(tmp_path, number, "0000000a"))
    archive.close()
    next(tmp_path.rglob("a-1-*.parquet")).unlink()
    archive.reopen_missing()
    assert [part.key for part in again(tmp_path).open] == ["T/a/1"]


def test_a_complete_archive_that_has_lost_a_file_is_completed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import refuses it, and says to copy it whole; there may be no other copy."""
    archive = begun(tmp_path)
    for number in range(2):
        archive.add(written(tmp_path, number, "0000000a"))
    archive.close()
    next(tmp_path.rglob("a-1-*.parquet")).unlink()

    async def plan(*_: object) -> Archive:
        return again(tmp_path)

    def export_all(_spark: object, _job: object, parts: list[Slice], *, on_exported: Any) -> None:
        for part in parts:
            on_exported(written(tmp_path, part.queue.queue_id, "0000000b"))

    watching = nullcontext(SimpleNamespace(ended=lambda **_: None))
    fakes = {"_plan": plan, "export_all": export_all, "session": lambda **_: nullcontext()}
    for name, fake in {**fakes, "watched": lambda *_, **__: watching}.items():
        monkeypatch.setattr(export, name, fake)
    ended = CliRunner().invoke(app, ["export", str(tmp_path), "--source", "s:1"])
    assert ended.exit_code == 0, ended.exception
    assert {path.name[-16:] for path in tmp_path.rglob("a-1-*")} == {"0000000b.parquet"}
    whole = again(tmp_path)
    whole.refuse_missing(whole.contents.outcomes.values())


def test_an_archive_of_before_is_continued(tmp_path: Path) -> None:
    """Its manifest names no run, or one that was killed."""
    first = begun(tmp_path)
    first.contents.run = ""
    first._write()
    second = again(tmp_path)
    second.claim()
    second.sweep()
    second.add(written(tmp_path, 0, "0000000a"))
    second.close()
    assert [part.key for part in again(tmp_path).open] == ["T/a/1"]


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../a.parquet", "topic=T/../../a.parquet", "topic=T/..", "a\0b", "x\n/../../a.parquet", ""],
)
def test_a_manifest_names_files_of_its_archive_only(tmp_path: Path, path: str) -> None:
    """An import of an archive that somebody else has made reads no other files."""
    archive = begun(tmp_path)
    archive.contents.outcomes["T/a/0"] = Exported("T/a/0", 0, 9, files=[File(path, 9, 0, 8, 5)])
    archive.write()
    with pytest.raises(ConfigError, match="not an archive manifest"):
        again(tmp_path)
