"""A slice of a queue is what the queue was when the export began, however long it takes to be written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage, checksum
from replicator.ranges import reader
from replicator.routing.queue_map import Queue
from replicator.spark.jobs import export
from replicator.spark.jobs.archive import Slice
from replicator.spark.jobs.location import Location
from tests.ranges.one_queue import OneQueue


def message(offset: int, stored: int) -> StoredMessage:
    return StoredMessage(offset, 0, 0, 1, stored, 0, checksum(b"b"), b"\0\0\0\1b", b"")


async def exported(
    monkeypatch: pytest.MonkeyPatch, directory: Path, part: Slice, *chunks: Sequence[StoredMessage]
) -> export.Exported:
    """The outcome of `part`, of which a broker gives `chunks`."""

    class Reader:
        gaps = 0

        def __init__(self, *_: object, **_more: object) -> None:
            pass

        async def chunks(self) -> AsyncIterator[Sequence[StoredMessage]]:
            for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def connected(**_: object) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(export, "RangeReader", Reader)
    source: Any = SimpleNamespace(connected=connected)
    return await export.export_slice(export.ExportJob(source=source, location=Location(str(directory))), part)


@pytest.mark.parametrize("stored", [(0, 0), (100, 300)])
async def test_the_queue_that_was_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stored: tuple[int, int]
) -> None:
    """Known by the store times of its ends, if they are known; what retention has deleted is not compared."""
    part = Slice("t", Queue("a", 0), 4, 7, stored)
    whole: list[list[StoredMessage]] = [[message(4, 100)], [], [message(5, 200), message(6, 300)]]
    assert (await exported(monkeypatch, tmp_path, part, *whole)).messages == 3
    assert (await exported(monkeypatch, tmp_path, part, *whole[1:])).messages == 2


@pytest.mark.parametrize("times", [(900, 950, 1000), (100, 200, 1000), (900,)])
async def test_a_queue_that_was_recreated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: tuple[int, ...]
) -> None:
    """Whatever it has by now: the archive holds one moment."""
    part = Slice("t", Queue("a", 0), 4, 7, (100, 300))
    with pytest.raises(ReplicatorError, match="recreated"):
        await exported(monkeypatch, tmp_path, part, [message(4 + i, stored) for i, stored in enumerate(times)])
    assert Location(str(tmp_path)).names() == []


@pytest.mark.parametrize("start", [0, 17])
async def test_a_queue_that_has_become_shorter_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: int
) -> None:
    """What retention deletes are gaps, and what a recreated queue does not have is not."""
    monkeypatch.setattr(reader, "PATIENCE", 0.1)
    source: Any = OneQueue(0, 5)
    job = export.ExportJob(source=source, location=Location(str(tmp_path)))
    with pytest.raises(ReplicatorError, match=r"t/a/0: the source queue ends at offset 5.*another directory"):
        await export.export_slice(job, Slice("t", Queue("a", 0), start, 100))
    assert job.location.names() == []
