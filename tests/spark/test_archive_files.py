"""The files of an archive: one after the other by size and by day, and a disk that has no room for them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replicator.client.pull import message_at
from replicator.operate.jobs import export as export_command
from replicator.protocol.message import StoredMessage
from replicator.routing.message_queue import MessageQueue
from replicator.spark.jobs import export as export_job
from replicator.spark.jobs.archive import File, read
from replicator.spark.jobs.location import Location
from tests.spark.test_archive import Command, export, restore, told
from tests.spark.waiting import settled
from tests.support.scene import SceneOf
from tests.support.traffic import connected, raw_topic, send

COUNT = 3000
#: What a queue has from this offset on was stored a day later.
MIDNIGHT = 1300
DAY = 86_400_000


def small_files(*arguments: Any) -> Iterator[Any]:
    """Tasks of `export` whose files are small, and which see midnight come: no broker can be told the time."""
    import importlib

    there: Any = importlib.import_module("replicator.spark.jobs.export")  # the process serves other tests too
    before = there.RangeReader.chunks, there._ROWS, there._FILE

    async def later(self: Any) -> AsyncIterator[Any]:
        async for messages in before[0](self):
            for message in messages:
                message.store_timestamp += DAY * (message.queue_offset >= MIDNIGHT)
            yield [*messages]  # a run would be read as it was stored

    there.RangeReader.chunks, there._ROWS, there._FILE = later, 100, 8000
    try:
        yield from there._export(*arguments)
    finally:
        there.RangeReader.chunks, there._ROWS, there._FILE = before


async def stored_later(place: tuple[Any, str, int], offset: int) -> int:
    """What the command asks of the ends of a queue, by the same clock."""
    found = await message_at(*place, offset)
    assert found is not None
    return found.store_timestamp + DAY * (offset >= MIDNIGHT)


def day(message: StoredMessage) -> date:
    """On which a file with it is, in UTC."""
    stored = message.store_timestamp + DAY * (message.queue_offset >= MIDNIGHT)
    return datetime.fromtimestamp(stored / 1000, UTC).date()


async def test_many_files_of_a_queue_that_crosses_midnight(
    command: Command, scene: SceneOf, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has what follows the one before, of one day; they come back in order, from any offset on."""
    async with scene(queues=1) as here:
        await here.produce(COUNT)
        await settled(here.source, here.topic, COUNT)
        ((_, messages),) = (await raw_topic(here.source, here.topic)).items()
        archive = tmp_path / "archive"
        with monkeypatch.context() as patch:
            patch.setattr(export_job, "_export", small_files)
            patch.setattr(export_command, "_stored", stored_later)
            (queue,) = told(await export(command, here, archive))["queues"]
        files = [File(**file) for file in queue["files"]]
        assert [file.first for file in files] == [0, *(file.last + 1 for file in files[:-1])]
        assert files[-1].last == COUNT - 1
        assert MIDNIGHT in {file.first for file in files}
        of_days = Counter(Path(file.path).parent.name for file in files)
        assert len(of_days) >= 2
        assert max(of_days.values()) > 3
        for file in files:
            offsets = pq.read_table(archive / file.path, columns=["queueOffset"])["queueOffset"].to_pylist()
            assert offsets == list(range(file.first, file.last + 1))
            days = {day(message) for message in messages[file.first : file.last + 1]}
            assert {f"date={each}" for each in days} == {Path(file.path).parent.name}
        counts = spark.read.parquet(str(archive)).groupBy("date").count().collect()
        assert {row["date"]: row["count"] for row in counts} == Counter(map(day, messages))

        for start in (0, files[2].last, files[3].first, MIDNIGHT, COUNT):
            reading = read(Location(str(archive)), MessageQueue.parse(queue["key"]), files, start=start)
            found = [message for some in reading for message in some]
            assert [message.queue_offset for message in found] == list(range(start, COUNT))
        assert told(await restore(command, here, archive, tmp_path / "store"))["copied"] == COUNT
        await settled(here.target, here.topic, COUNT)
        await here.assert_clean(COUNT)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 600 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_a_disk_without_room(command: Command, scene: SceneOf, small_disk: Path, tmp_path: Path) -> None:
    """One line for the queue that found none, no half file; with more room it goes on with that queue."""
    async with scene(queues=2) as here:
        await here.produce(100)
        async with connected(here.source) as client:  # what no compression makes small
            for _ in range(4):
                noise = [(os.urandom(3000), {"KEYS": "noise"}) for _ in range(100)]
                await send(client, here.source.brokers[0].name, here.topic, 1, noise)
        await settled(here.source, here.topic, 500)
        archive = small_disk / "archive"
        ended = await export(command, here, archive)
        assert ended.exit_code == 5, (ended.output, ended.exception)
        whole, cut = json.loads(ended.stdout)["queues"]
        assert (whole["error"], whole["messages"]) == ("", 50)
        assert cut["error"].endswith(
            f"/1 cannot be written to {archive} (No space left on device): fix that and run it again"
        )
        names = [file.name for file in archive.rglob("*") if file.is_file()]
        assert sorted(names) == ["_manifest.json", Path(whole["files"][0]["path"]).name]
        more = ["mount", "-o", "remount,size=10m", str(small_disk)]
        await asyncio.to_thread(subprocess.run, more, check=True)
        assert told(await export(command, here, archive))["messages"] == 500
        assert told(await restore(command, here, archive, tmp_path / "store"))["copied"] == 500
        await settled(here.target, here.topic, 500)
        await here.assert_clean(500)
