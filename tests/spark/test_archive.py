"""Topics as Parquet and back: nothing lost, nothing twice, not a byte changed, whatever fails on the way."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import zlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from replicator.protocol.columns import take_apart
from replicator.protocol.message import StoredMessage
from replicator.ranges.access import Access
from replicator.ranges.copier import copy_range
from replicator.ranges.copy_job import CopyJob, Range
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.sandbox import ClusterSpec
from replicator.spark.jobs import export as export_job
from replicator.spark.jobs import import_
from replicator.spark.jobs.archive import Slice, is_of_attempt, partition
from replicator.spark.jobs.archive_rows import SCHEMA, batch_of, messages_of
from replicator.spark.jobs.location import Location
from tests.spark.waiting import settled
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, send

Command = Callable[..., Awaitable[Result]]


def message(offset: int, properties: bytes, body: bytes = b"body") -> StoredMessage:
    crc = zlib.crc32(body) & 0x7FFFFFFF
    whole = len(body).to_bytes(4) + body
    return StoredMessage(offset, -5, 0x301, 1234, 1_700_000_000_000 + offset, 3, crc, whole, properties)


@pytest.mark.parametrize(
    ("raw", "shown", "kept"),
    [
        (b"KEYS\x01a b\x02TAGS\x01\xc3\xbc\x02", [("KEYS", "a b"), ("TAGS", "ü")], False),
        (b"a\x01b\x01c\x02d\x01", [("a", "b\x01c"), ("d", "")], False),
        (b"", [], False),
        (b"\xff\x01b\x02", [("\ufffd", "b")], True),
        (b"name", [("name", "")], True),
        (b"a\x01x\x02\x02b\x01y\x02", [("a", "x"), ("b", "y")], True),
    ],
)
def test_messages_are_the_same_after_a_row(raw: bytes, shown: list[tuple[str, str]], kept: bool) -> None:
    """Also where their properties are none that brokers write; those are kept beside what is shown."""
    messages = [message(7, raw), message(8, b"UNIQ_KEY\x01U\x02", b"")]
    batch = batch_of(Queue("broker-a", 3), take_apart([messages]))
    again = [each for some in messages_of(batch) for each in some]
    for one, other in zip(messages, again, strict=True):
        assert one.properties.rstrip(b"\x02") == other.properties.rstrip(b"\x02")
        other.properties = one.properties
        assert one == other
    assert batch.column("properties")[0].as_py() == shown
    assert batch.column("rawProperties").is_valid().to_pylist() == [kept, False]


def test_files_of_attempts_are_known_by_their_names() -> None:
    """Complete or not; nothing else in a directory is taken for one, and removed."""
    part = Slice("t/ü", Queue("b/a-1", 1), 0, 9)
    place, name = partition(part.topic, 0), part.file(5, "0a1b2c3d")
    assert is_of_attempt(f"{place}/{name}")
    assert is_of_attempt(f"{place}/.{name}")
    for other in (
        f"{place}/part-00000.parquet",
        f"{place}/{name}.bak",
        name,
        "_manifest.json",
        f"x/{place}/{name}",
    ):
        assert not is_of_attempt(other)


async def test_an_import_begins_again_where_its_range_does(tmp_path: Path) -> None:
    """When the target has lost all that it had acknowledged; there is no source broker to ask."""
    part = Range("t", Queue("a", 0), "t", Queue("b", 0), 7, 9)
    state = QueueState(part.topic, part.source, part.target)
    state.progress.start = part.start
    archived = import_.Archived(part, ())
    shared: Any = SimpleNamespace()
    await import_._ArchiveSource(state, shared, Location(str(tmp_path)), archived).check()
    assert state.progress.position == 7


async def export(command: Command, here: Scene, directory: object, *more: object) -> Result:
    given = ("--source", here.source.namesrv, "--topics", here.topic, "--output", "json")
    return await command("export", directory, *given, *more)


async def restore(command: Command, here: Scene, directory: object, store: Path, *more: object) -> Result:
    given = ("--target", here.target.namesrv, "--store-path", store, "--settle-timeout", "0.2", "--output", "json")
    return await command("import", directory, *given, *more)


def told(result: Result) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


async def odd(scene: Scene) -> None:
    """Seven messages as producers rarely send them."""
    broker = scene.source.brokers[0].name
    async with connected(scene.source) as client:
        packed = zlib.compress(b"x" * 9000)
        await send(client, broker, scene.topic, 0, [(packed, {"KEYS": "zip"})], sys_flag=0x301, flag=9, born=1234)
        await send(client, broker, scene.topic, 0, [(b"", {"own": ""}), (b"\x00\xff" * 10, {"ü": "\x01ö"})])
        await send(
            client, broker, scene.topic, 0, [(b"c", {"__RPL_ORIGIN": "north", "__RPL_SOURCE": "north/b/0/1/2"})]
        )
        await send(client, broker, scene.topic, 0, [(b"big" * 100_000, {"KEYS": "big"})] * 3)


async def test_out_and_in_again(command: Command, scene: SceneOf, spark: Any, tmp_path: Path) -> None:
    """Two brokers to one; compared with the source; a second import has nothing to do, and a route goes on."""
    async with scene(source=ClusterSpec(name="wide", brokers=2), queues=2) as here:
        await here.produce(6000)
        await odd(here)
        await settled(here.source, here.topic, 6007)
        archive = tmp_path / "archive"
        done = told(await export(command, here, archive))
        assert (done["complete"], done["messages"], len(done["queues"])) == (True, 6007, 4)
        frame = spark.read.parquet(str(archive))
        assert frame.count() == 6007
        today = datetime.now(UTC).date()
        rows = frame.where("tags = 'tag1' and keys = 'k1'").select("topic", "date", "properties", "msgId").collect()
        assert [(r.topic, r.properties["n"], r.msgId) for r in rows] == [(here.topic, "1", f"U{1:030d}")]
        assert (today - rows[0].date).days <= 1
        again = told(await export(command, here, archive))
        assert again["messages"] == 6007

        first = told(await restore(command, here, archive, tmp_path / "store"))
        assert (first["complete"], first["copied"], first["before"]) == (True, 6007, 0)
        await settled(here.target, here.topic, 6007)
        await here.assert_clean(6007)
        both = ("--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic)
        found = told(await command("verify", *both, "--complete", "--output", "json"))
        assert (found["clean"], found["counts"]) == (True, {})
        second = told(await restore(command, here, archive, tmp_path / "elsewhere"))
        assert (second["copied"], second["before"]) == (0, 6007)
        await here.produce(800, start=6000)
        async with here.worker("--worker-group", "after-import") as worker:
            await worker.caught_up(here.topic, 800)
        await here.assert_clean(6807)


def failing(job: Any, whole: Any, *, part: str) -> Any:
    """Tasks of `job` that fail in their first attempt, and are killed in their second, on the way."""
    errors: list[int] = []  # of this task: an import's tries again by itself

    async def fails(*given: Any) -> Any:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        attempt = context.attemptNumber() + len(errors)
        if attempt == 2:
            return await whole(*given)
        running = asyncio.create_task(whole(*given))
        await asyncio.wait([running], timeout=1.5)
        assert not running.done()
        if attempt == 1:
            os._exit(9)
        running.cancel()
        await asyncio.wait([running])
        errors.append(attempt)
        raise OSError("failed by the test")

    name = job.__name__

    def patched(*arguments: Any) -> Iterator[Any]:
        import importlib

        there: Any = importlib.import_module(name)  # as it is in the task's process, which serves other tests too
        setattr(there, part, fails)
        try:
            yield from (there._export if part == "export_slice" else there._import)(*arguments)
        finally:
            setattr(there, part, whole)

    return patched


async def test_exports_and_imports_that_fail_are_made_again(
    command: Command, scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the way out and on the way in: nothing lost, nothing twice, and no half file."""
    async with scene(queues=2) as here:
        await here.produce(8000)
        await settled(here.source, here.topic, 8000)
        archive = tmp_path / "archive"
        slow = ("--rate-messages", "2000")
        with monkeypatch.context() as patch:
            patch.setattr(export_job, "_export", failing(export_job, export_job.export_slice, part="export_slice"))
            done = told(await export(command, here, archive, *slow))
        assert done["messages"] == 8000
        names = sorted(str(path.relative_to(archive)) for path in archive.rglob("*") if path.is_file())
        assert names == sorted(["_manifest.json", *(file["path"] for q in done["queues"] for file in q["files"])])
        with monkeypatch.context() as patch:
            patch.setattr(import_, "_import", failing(import_, import_._import_range, part="_import_range"))
            more = (*slow, "--batch-messages", "50")
            back = told(await restore(command, here, archive, tmp_path / "store", *more))
        assert back["before"] > 0
        assert back["before"] + back["copied"] == 8000
        await settled(here.target, here.topic, 8000)
        await here.assert_clean(8000)


def full(job: Any, attempts: int, parts: Any) -> Any:
    """Exports as it is done, but that there is little room on the disk for queue 1."""
    from replicator.ranges.access import run
    from replicator.spark.engine.tasks import each_as_task
    from replicator.spark.jobs import export as there

    def one(part: Any) -> Any:
        if part.queue.queue_id != 1:
            return run(there.export_slice(job, part))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        try:
            return run(there.export_slice(job, part))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return each_as_task(attempts, parts, one, there.Exported.failed)


async def test_a_disk_that_is_full_leaves_its_queue_open(
    command: Command, scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said in one line, no half file, no import of it; run again the rest is written."""
    async with scene() as here:
        await here.produce(800, size=2000)
        await odd(here)
        await settled(here.source, here.topic, 807)
        archive = tmp_path / "archive"
        async with connected(here.source) as client:  # what no compression makes small
            noise = [(os.urandom(3000), {"KEYS": "noise"}) for _ in range(100)]
            await send(client, here.source.brokers[0].name, here.topic, 1, noise)
        await settled(here.source, here.topic, 907)
        with monkeypatch.context() as patch:
            patch.setattr(export_job, "_export", full)
            ended = await export(command, here, archive)
        assert ended.exit_code == 5
        queues = {queue["key"].rpartition("/")[2]: queue for queue in json.loads(ended.stdout)["queues"]}
        assert "cannot be written to" in queues["1"]["error"]
        assert "(File too large): fix that and run it again" in queues["1"]["error"]
        assert [queue["messages"] for _, queue in sorted(queues.items())] == [207, 0, 200, 200]
        assert not [path for path in archive.rglob("*parquet*") if path.is_file() and "-1-000" in path.name]
        refused = await restore(command, here, archive, tmp_path / "store")
        assert "is not complete: 1 queues are open: run `replicator export` again" in str(refused.exception)
        other = await command("export", archive, "--source", here.source.namesrv, "--topics", "other")
        assert f"was begun with topics = ['{here.topic}']" in str(other.exception)
        assert told(await export(command, here, archive))["messages"] == 907

        victim = next(path for path in archive.rglob("*-2-000*.parquet"))
        whole = victim.read_bytes()
        column = pq.ParquetFile(victim).metadata.row_group(0).column(SCHEMA.get_field_index("body"))
        at = column.data_page_offset + 99
        victim.write_bytes(whole[:-1])
        cut = await restore(command, here, archive, tmp_path / "store")
        assert f"has {len(whole) - 1} bytes instead of {len(whole)}" in str(cut.exception)
        victim.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        bad = await restore(command, here, archive, tmp_path / "store")
        assert bad.exit_code == 5
        (problem,) = [queue["error"] for queue in json.loads(bad.stdout)["queues"] if queue["error"]]
        assert "cannot be read" in problem
        victim.write_bytes(whole)
        assert told(await restore(command, here, archive, tmp_path / "store"))["complete"]
        await settled(here.target, here.topic, 907)
        await here.assert_clean(907)


async def test_an_archive_is_not_put_behind_a_later_copy(command: Command, scene: SceneOf, tmp_path: Path) -> None:
    """A route that began later than the archive; and what is not an archive."""
    async with scene(queues=1) as here:
        await here.produce(100)
        await settled(here.source, here.topic, 100)
        archive = tmp_path / "archive"
        told(await export(command, here, archive))
        await create_topic(here.target, here.topic, queues=1)
        job = CopyJob(
            source=Access(namesrv=(here.source.namesrv,)),
            target=Access(namesrv=(here.target.namesrv,)),
            options=RouteOptions(identity=Identity("east", "west")),
            memory_bytes=1024**2,
        )
        source, target = (Queue(side.brokers[0].name, 0) for side in (here.source, here.target))
        await copy_range(job, Range(here.topic, source, here.topic, target, 50, 100))
        ended = await restore(command, here, archive, tmp_path / "store")
        assert ended.exit_code == 5
        assert "begin with source offset 50, so that offset 0 would come after them" in ended.stdout
        nothing = await restore(command, here, tmp_path / "none", tmp_path / "store")
        assert "has no _manifest.json: name one that `export` wrote" in str(nothing.exception)
        missing = await command("export", tmp_path / "new", "--source", here.source.namesrv, "--topics", "none")
        assert "topics = none: the source has no such topic" in str(missing.exception)
        assert not (tmp_path / "new").exists()
        taken = await export(command, here, tmp_path)
        assert "is not empty, and has no _manifest.json: name a new or empty one" in str(taken.exception)
        (tmp_path / "file").write_text("")
        unfit = await export(command, here, tmp_path / "file" / "archive")
        assert "cannot be" in str(unfit.exception)
        assert "(Not a directory)" in str(unfit.exception)
