"""Writes queues as Parquet in Spark's tasks, one per queue; bodies never pass through the JVM.

Each attempt has files of its own, which appear when its queue is written to its end. Only those that the manifest
names count, and the driver removes the others: an attempt that Spark has given up may still be writing.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from replicator.errors import ReplicatorError
from replicator.protocol.columns import Columns, take_apart
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import size_of
from replicator.ranges.access import Access, run
from replicator.ranges.rates import RateLimited, acquire_for
from replicator.ranges.reader import RangeReader
from replicator.ranges.retry import PATIENCE
from replicator.routing.faults import SourceReset
from replicator.routing.limiter import RateLimiter
from replicator.spark.engine.tasks import each_as_task, in_turn, run_rate_limited
from replicator.spark.jobs.archive import OTHER_DIRECTORY, File, Slice, partition, schema_of
from replicator.spark.jobs.archive_rows import batch_of
from replicator.spark.jobs.location import Location

__all__ = ["ExportJob", "Exported", "export_all", "export_slice"]

#: Approximate messages and bytes of a row group, which an import holds in memory, and compressed bytes of a file.
_ROWS: Final = 16 * 1024
_GROUP: Final = 16 * 1024 * 1024
_FILE: Final = 256 * 1024 * 1024
#: Columns with repeated values.
_REPEATED: Final = [
    "brokerName",
    "queueId",
    "tags",
    "properties.key_value.key",
    "properties.key_value.value",
    "flag",
    "sysFlag",
    "reconsumeTimes",
]
#: Columns by which readers skip row groups.
_SOUGHT: Final = [
    "brokerName",
    "queueId",
    "queueOffset",
    "msgId",
    "keys",
    "tags",
    "bornTimestamp",
    "storeTimestamp",
]
#: Milliseconds.
_DAY: Final = 86_400_000


class Exported(msgspec.Struct, frozen=True):
    """The outcome of the slice `key`: `messages` of [start, end) are in `files`, `gaps` were already deleted."""

    key: str
    start: int
    end: int
    messages: int = 0
    gaps: int = 0
    files: list[File] = []
    seconds: float = 0.0
    error: str = ""

    @classmethod
    def failed(cls, part: Slice, error: str) -> Exported:
        """The outcome of a slice that could not be written to its end."""
        return cls(part.key, part.start, part.end, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportJob(RateLimited):
    """What all slices have in common."""

    source: Access
    location: Location
    on_gap: Literal["fail", "skip"] = "skip"


def export_all(
    spark: Any, job: ExportJob, parts: Sequence[Slice], *, on_exported: Callable[[Exported], None]
) -> None:
    """Exports `parts`, one Spark task each; raises the errors of `run_all`."""
    turns = in_turn(parts, lambda part: part.queue.broker)
    run_rate_limited(spark, _export, job, turns, on_outcome=on_exported, on_tick=lambda: None)


def _export(job: ExportJob, attempts: int, parts: Iterable[Slice]) -> Iterator[Exported]:
    return each_as_task(attempts, parts, lambda part: run(export_slice(job, part)), Exported.failed)


async def export_slice(job: ExportJob, part: Slice) -> Exported:
    """Writes `part`.

    Raises:
        ReplicatorError: the store cannot be written, the broker cannot be read, or its queue is another one by now.
    """
    started = time.monotonic()
    limiter = RateLimiter(job.rate_messages, job.rate_bytes)
    async with job.source.connected(patience=PATIENCE) as cluster:
        place = cluster, part.topic, part.queue
        reader = RangeReader(*place, part.start, part.end, on_loss=job.on_gap, on_reset="fail")
        writing = _Writing(job.location, part)
        try:
            async for messages in reader.chunks():
                part.refuse_others(messages)
                await acquire_for(limiter, messages)
                if writing.add(messages):
                    await job.location.run(writing.flush)
            files = await job.location.run(writing.finish)
        except SourceReset as reset:
            raise ReplicatorError(f"{part.key}: {reset.message}", hint=OTHER_DIRECTORY) from None
        except OSError as error:
            reason = job.location.reason(error)
            raise ReplicatorError(
                f"{part.key} cannot be written to {job.location} ({reason})", hint="fix that and run it again"
            ) from None
        finally:
            writing.abandon()
    return Exported(
        part.key,
        part.start,
        part.end,
        messages=sum(file.rows for file in files),
        gaps=reader.gaps,
        files=files,
        seconds=round(time.monotonic() - started, 3),
    )


class _Writing:
    """The files of one attempt; none appears before `finish` on a file system."""

    def __init__(self, location: Location, part: Slice) -> None:
        self._location = location
        self._part = part
        self._mark = secrets.token_hex(4)
        self._held: list[Sequence[StoredMessage]] = []
        self._count = 0
        self._size = 0
        self._open: _Parquet | None = None
        self._whole: list[_Parquet] = []
        self._lock = threading.Lock()  # an attempt that is cancelled leaves its thread behind

    def add(self, messages: Sequence[StoredMessage]) -> bool:
        """Holds messages; returns whether `flush` is due."""
        if messages:
            self._held.append(messages)
        self._count += len(messages)
        self._size += size_of(messages)
        return self._count >= _ROWS or self._size >= _GROUP

    def flush(self) -> None:
        """Writes what is held; each day has its own files."""
        with self._lock:
            self._flush()

    def finish(self) -> list[File]:
        """Has all files appear, durably."""
        with self._lock:
            self._flush()
            self._close()
            self._location.publish([parquet.name for parquet in self._whole])
            files = [parquet.file for parquet in self._whole]
            self._whole = []
        return files

    def abandon(self) -> None:
        """Removes the files, unless `finish` has returned them."""
        with self._lock:
            for parquet in (*self._whole, *([self._open] if self._open else [])):
                with suppress(OSError):
                    parquet.abandon()

    def _flush(self) -> None:
        held, self._held, self._count, self._size = self._held, [], 0, 0
        for day, messages in _days(held):
            place = partition(self._part.topic, day * _DAY)
            if self._open is not None and self._open.place != place:
                self._close()
            if self._open is None:
                self._open = _Parquet(self._location, place, self._part, messages.offset[0], self._mark)
            self._open.write(messages)
            if self._open.bytes >= _FILE:
                self._close()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._whole.append(self._open)
            self._open = None


def _days(held: Sequence[Sequence[StoredMessage]]) -> Iterator[tuple[int, Columns]]:
    """The messages of `held` in their order, each time those of one day."""
    if not held:
        return
    whole = take_apart(held, room=pa.allocate_buffer)
    if min(whole.stored) // _DAY == max(whole.stored) // _DAY:
        yield whole.stored[0] // _DAY, whole
        return
    single = (message for messages in held for message in messages)
    for day, those in groupby(single, lambda message: message.store_timestamp // _DAY):
        yield day, take_apart([list(those)])


class _Parquet:
    """One file."""

    def __init__(self, location: Location, place: str, part: Slice, first: int, mark: str) -> None:
        self.place = place
        self.name = f"{place}/{part.file(first, mark)}"
        self.bytes = 0
        self._location = location
        self._queue = part.queue
        self._first = first
        self._last = first
        self._rows = 0
        self._file = location.create(self.name)
        self._writer = pq.ParquetWriter(
            self._file,
            schema_of(part.topic),
            compression="zstd",
            use_dictionary=_REPEATED,
            write_statistics=_SOUGHT,
            write_page_checksum=True,
        )

    def write(self, messages: Columns) -> None:
        self._writer.write_batch(batch_of(self._queue, messages))
        self._rows += messages.count
        self._last = messages.offset[-1]
        self.bytes = self._file.tell()

    def close(self) -> None:
        self._writer.close()
        self.bytes = self._file.tell()
        self._file.close()
        self._location.closed(self.name)

    @property
    def file(self) -> File:
        """What the manifest says of it, once it is closed."""
        return File(self.name, self._rows, self._first, self._last, self.bytes)

    def abandon(self) -> None:
        with suppress(OSError, pa.ArrowException, ValueError):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        self._location.remove([self.name])
