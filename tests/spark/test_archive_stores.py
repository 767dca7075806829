"""Archives on S3 and on local files: only what the manifest names counts, whoever is killed while writing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset, fs
from structlog.testing import capture_logs

from replicator.errors import ConfigError
from replicator.operate.jobs.archive import MANIFEST, Archive, Contents
from replicator.protocol.message import StoredMessage
from replicator.routing.queue_map import Queue
from replicator.spark.jobs import export as export_job
from replicator.spark.jobs.archive import Slice, read
from replicator.spark.jobs.export import Exported
from replicator.spark.jobs.location import Location
from tests.spark.test_archive import Command, export, message, restore, told
from tests.spark.test_surroundings import events
from tests.spark.waiting import settled
from tests.support.guarded import shown
from tests.support.s3 import S3, SECRET
from tests.support.scene import Scene, SceneOf

PART = Slice("t", Queue("b", 0), 0, 100)
MESSAGES = [message(offset, b"KEYS\x01k\x02") for offset in range(100)]


@pytest.fixture(params=["path", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an archive may be, as a user gives it."""
    return request.getfixturevalue("s3").uri("bucket/archive") if request.param == "s3" else str(tmp_path / "a")


def attempt(location: Location, messages: list[StoredMessage]) -> Any:
    """One that has written messages, and not yet ended."""
    writing = export_job._Writing(location, PART)
    writing.add(messages)
    writing.flush()
    return writing


def test_an_attempt_that_lost_takes_nothing_from_the_one_that_won(place: str) -> None:
    """Neither while it runs, nor when it ends or fails late; what it leaves does not count, and is removed."""
    location = Location.of(place)
    contents = Contents(id=None, cluster="c", namesrv="n:1", selection={}, topics={}, slices=[PART])
    archive = Archive.begin(location, contents)
    late, failing = attempt(location, MESSAGES[:50]), attempt(location, MESSAGES[:50])
    files = attempt(location, MESSAGES).finish()
    archive.add(Exported(PART.key, 0, 100, messages=100, files=files))
    archive.close()
    late.add(MESSAGES[50:])
    late.finish()
    failing.abandon()
    killed = attempt(location, MESSAGES[:50])  # its file stays open, as that of a process that is gone
    assert late is not None
    again = Archive.read(Location.of(place))
    assert again is not None
    assert again.open == []
    again.refuse_missing(again.contents.outcomes.values())
    (outcome,) = again.contents.outcomes.values()
    found = [
        each.queue_offset for some in read(location, PART.message_queue, outcome.files, start=0) for each in some
    ]
    assert found == list(range(100))
    assert len(location.names()) > 2
    again.sweep()
    assert sorted(location.names()) == sorted([MANIFEST, *(file.path for file in files)])
    del killed


def test_a_manifest_that_was_never_finished_takes_no_place(tmp_path: Path) -> None:
    """Of an export that was killed in its first moment; any other file does."""
    location = Location.of(str(tmp_path / "a"))
    contents = Contents(id=None, cluster="c", namesrv="n:1", selection={}, topics={}, slices=[])
    with location.create(MANIFEST) as unfinished:
        unfinished.write(b"{")
    Archive.begin(location, contents)
    assert location.names() == [MANIFEST]
    other = Location.of(str(tmp_path / "b"))
    with other.create("of-others") as file:
        file.write(b"{")
    with pytest.raises(ConfigError, match="is not empty"):
        Archive.begin(other, contents)


def test_files_that_may_not_be_removed_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told."""
    location = Location.of(str(tmp_path / "a"))
    contents = Contents(id=None, cluster="c", namesrv="n:1", selection={}, topics={}, slices=[])
    archive = Archive.begin(location, contents)
    attempt(location, MESSAGES).finish()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Location, "remove", refuse)
    with capture_logs() as logs:
        archive.sweep()
    (entry,) = logs
    assert (entry["log_level"], entry["reason"]) == ("warning", "Permission denied")
    assert len(location.names()) == 2


def dying(job: Any, attempts: int, parts: Any) -> Iterator[Any]:
    """Exports whose first attempts are killed: in the middle of a file, then with all there but no outcome."""
    from pyspark import TaskContext

    from replicator.ranges.access import run
    from replicator.spark.engine.tasks import each_as_task
    from replicator.spark.jobs import export as there

    context: Any = TaskContext.get()
    number = context.attemptNumber()

    def one(part: Any) -> Any:
        writing = there._Writing
        if number == 0:
            setattr(writing, "finish", lambda self: os._exit(9))  # noqa: B010 - in the task's process alone
        done = run(there.export_slice(job, part))
        if number == 1:
            os._exit(9)
        return done

    return each_as_task(attempts, parts, one, there.Exported.failed)


async def out_and_in_again(
    command: Command, here: Scene, uri: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 messages of the source come to the target by an archive at `uri`, though tasks are killed."""
    await here.produce(3000)
    await settled(here.source, here.topic, 3000)
    with monkeypatch.context() as patch:
        patch.setattr(export_job, "_export", dying)
        done = told(await export(command, here, uri))
    assert (done["complete"], done["messages"]) == (True, 3000)
    names = sorted(Location.of(uri).names())
    assert names == sorted(["_manifest.json", *(file["path"] for q in done["queues"] for file in q["files"])])
    assert told(await restore(command, here, uri, store))["copied"] == 3000
    await settled(here.target, here.topic, 3000)
    await here.assert_clean(3000)


async def test_out_to_s3_and_in_again(
    command: Command,
    scene: SceneOf,
    spark: Any,
    s3: S3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tasks are killed: nothing lost, nothing twice; no secret anywhere that Spark writes."""
    async with scene(queues=2) as here:
        uri = s3.uri("bucket/deep/archive")
        await out_and_in_again(command, here, uri, tmp_path / "store", monkeypatch)
        store, path = fs.FileSystem.from_uri(uri)
        assert dataset.dataset(path, filesystem=store, partitioning="hive").count_rows() == 3000
        log = await asyncio.to_thread(events, spark)
        configured = [f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll()]
        assert "SparkListenerJobEnd" in log
        assert not shown(SECRET, log, *configured)
        with s3.refusing():
            denied = await export(command, here, uri)
        assert "directory = 's3://bucket/deep/archive' cannot be read (" in str(denied.exception)
        nowhere = await export(command, here, s3.uri("none/archive"))
        assert "directory = 's3://none/archive' cannot be read (NO_SUCH_BUCKET: " in str(nowhere.exception)
        assert not shown(SECRET, str(denied.exception), str(nowhere.exception))
