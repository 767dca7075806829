"""What an archive is compared with before any of it counts as copied."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.protocol.message import StoredMessage, checksum
from replicator.ranges.copy_job import CopyFailed, Range
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel
from replicator.routing.faults import SourceEnded
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.spark.jobs.archive import Slice
from replicator.spark.jobs.export import _Writing
from replicator.spark.jobs.import_ import Archived, _ArchiveSource
from replicator.spark.jobs.location import Location

#: When the message at offset 0 was stored (ms); each later one, a millisecond later.
STORED = 1_700_000_000_000


def message(offset: int) -> StoredMessage:
    return StoredMessage(offset, 0, 0, 1, STORED + offset, 0, checksum(b"b"), b"\0\0\0\1b", b"")


def source_of(directory: Path, last: tuple[int, int] | None) -> _ArchiveSource:
    """An archive of the offsets 2 to 9 without 5, at a target whose last copy has that offset and store time."""
    location = Location(str(directory))
    writing = _Writing(location, Slice("t", Queue("a", 0), 2, 10))
    writing.add([message(offset) for offset in range(2, 10) if offset != 5])
    files = tuple(writing.finish())
    part = Range("t", Queue("a", 0), "t", Queue("b", 0), 2, 10)
    state = QueueState(part.topic, part.source, part.target)
    state.progress.start = state.progress.position = part.start
    if last is not None:
        state.progress.position = last[0] + 1
        state.progress.offsets.add(last[0], 70, 1)
        state.progress.store_timestamp = last[1]
    shared: Any = SimpleNamespace(options=RouteOptions(identity=Identity("s", "t")), budget=MemoryBudget(1 << 20))
    return _ArchiveSource(state, shared, location, Archived(part, files))


@pytest.mark.parametrize(
    "last",
    [
        None,
        (6, STORED + 6),
        (5, STORED + 5),  # which the archive lacks
        (40, STORED + 40),  # copied by a route since
        (1, STORED - 1),  # before the archive
        (6, 0),  # not known
    ],
)
async def test_the_archive_is_of_the_queue_that_was_copied(tmp_path: Path, last: tuple[int, int] | None) -> None:
    """As far as both have something of it."""
    await source_of(tmp_path, last).check()


@pytest.mark.parametrize("last", [(6, STORED - 1000), (6, STORED + 1000), (5, STORED - 1000), (40, STORED - 1000)])
async def test_a_recreated_topic_is_not_taken_for_the_one_that_was_copied(
    tmp_path: Path, last: tuple[int, int]
) -> None:
    """Its messages would be skipped up to the last copy's offset, and count as copied before."""
    with pytest.raises(CopyFailed, match="recreated"):
        await source_of(tmp_path, last).check()


async def test_what_an_archive_lacks_counts_once(tmp_path: Path) -> None:
    """However often it is read again because the target was checked again."""
    source = source_of(tmp_path, None)
    for _ in range(2):
        channel = Channel(MemoryBudget(1 << 20))
        task = await source.open(channel, 2)
        task.start()
        with pytest.raises(SourceEnded):
            await _read_all(channel)
    assert source._state.counters.gaps == 1


async def _read_all(channel: Channel) -> None:
    async with asyncio.timeout(10):
        while True:
            await channel.ready()
            channel.pop()
