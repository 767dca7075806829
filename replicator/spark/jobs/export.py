"""Writes queues as Parquet in Spark's tasks, one per queue; bodies never pass through the JVM.

Files get their names when a queue is written to its end. An attempt first removes the files of earlier attempts for
its queue, so nothing is written twice.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage
from replicator.ranges.access import Access, run
from replicator.ranges.rates import RateLimited
from replicator.ranges.reader import RangeReader
from replicator.ranges.retry import PATIENCE
from replicator.routing.limiter import RateLimiter
from replicator.spark.engine.tasks import each_as_task, in_turn, run_rate_limited
from replicator.spark.jobs.archive import SCHEMA, File, Slice, batch_of, partition

__all__ = ["ExportJob", "Exported", "export_all", "export_slice"]

#: Approximate messages and bytes of a row group, and bytes of a file.
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
    directory: Path
    on_gap: Literal["fail", "skip"] = "skip"


def export_all(
    spark: Any, job: ExportJob, parts: Sequence[Slice], *, on_exported: Callable[[Exported], None]
) -> None:
    """Exports `parts`, one Spark task each; raises the errors of `run_all`."""
    turns = in_turn(parts, lambda part: part.queue.broker)
    run_rate_limited(spark, _export, job, turns, on_outcome=on_exported, on_look=lambda: None)


def _export(job: ExportJob, attempts: int, parts: Iterable[Slice]) -> Iterator[Exported]:
    return each_as_task(attempts, parts, lambda part: run(export_slice(job, part)), Exported.failed)


async def export_slice(job: ExportJob, part: Slice) -> Exported:
    """Writes `part`.

    Raises:
        ReplicatorError: the directory cannot be written, or the broker cannot be read.
    """
    started = time.monotonic()
    limiter = RateLimiter(job.rate_messages, job.rate_bytes)
    async with job.source.connected(patience=PATIENCE) as cluster:
        reader = RangeReader(cluster, part.topic, part.queue, part.start, part.end, on_loss=job.on_gap)
        writing = _Writing(job.directory, part)
        try:
            writing.clear()
            async for messages in reader.chunks():
                size = sum(len(message.body) for message in messages)
                await limiter.acquire(len(messages), size)
                writing.add(messages, size)
            files = writing.finish()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ReplicatorError(
                f"{part.key} cannot be written to {job.directory} ({reason})", hint="fix that and run it again"
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
    """The files of one attempt, under hidden names until `finish`."""

    def __init__(self, directory: Path, part: Slice) -> None:
        self._directory = directory
        self._part = part
        self._mark = secrets.token_hex(4)
        self._held: list[StoredMessage] = []
        self._size = 0
        self._open: _Parquet | None = None
        self._whole: list[_Parquet] = []

    def clear(self) -> None:
        """Removes the files of earlier attempts."""
        for place in self._directory.glob(f"{partition(self._part.topic)}/date=*"):
            for left in place.iterdir():
                if self._part.owns(left.name):
                    left.unlink(missing_ok=True)

    def add(self, messages: Sequence[StoredMessage], size: int) -> None:
        """Adds messages; each day has its own files."""
        for day, those in groupby(messages, lambda message: message.store_timestamp // _DAY):
            place, some = partition(self._part.topic, day * _DAY), list(those)
            if self._open is not None and self._open.place != place:
                self._close()
            if self._open is None:
                self._open = _Parquet(self._directory, place, self._part, some[0].queue_offset, self._mark)
            self._held += some
            if len(self._held) >= _ROWS:
                self._flush()
        self._size += size
        if self._size >= _GROUP:
            self._flush()

    def finish(self) -> list[File]:
        """Gives all files their names, and syncs their directories to disk."""
        self._close()
        files = [parquet.publish() for parquet in self._whole]
        for place in {(self._directory / file.path).parent for file in files}:
            _sync(place)
        return files

    def abandon(self) -> None:
        """Removes files that do not have their names yet."""
        for parquet in (*self._whole, *([self._open] if self._open else [])):
            with suppress(OSError):
                parquet.abandon()

    def _flush(self) -> None:
        if self._held and self._open is not None:
            self._open.write(self._held)
            self._held, self._size = [], 0
            if self._open.bytes >= _FILE:
                self._close()

    def _close(self) -> None:
        if self._open is not None:
            parquet, held = self._open, self._held
            self._held, self._size = [], 0
            if held:
                parquet.write(held)
            parquet.close()
            self._whole.append(parquet)
            self._open = None


class _Parquet:
    """One file, written under a hidden name."""

    def __init__(self, directory: Path, place: str, part: Slice, first: int, mark: str) -> None:
        self.place = place
        self.bytes = 0
        self._directory = directory
        self._queue = part.queue
        self._name = f"{place}/{part.file(first)}"
        self._hidden = directory / place / f".{part.file(first)}.{mark}"
        self._first = first
        self._last = first
        self._rows = 0
        self._hidden.parent.mkdir(parents=True, exist_ok=True)
        self._file = pa.OSFile(str(self._hidden), "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            SCHEMA,
            compression="zstd",
            use_dictionary=_REPEATED,
            write_statistics=_SOUGHT,
            write_page_checksum=True,
        )

    def write(self, messages: Sequence[StoredMessage]) -> None:
        self._writer.write_batch(batch_of(self._queue, messages))
        self._rows += len(messages)
        self._last = messages[-1].queue_offset
        self.bytes = self._file.tell()

    def close(self) -> None:
        self._writer.close()
        self._file.close()
        _sync(self._hidden)

    def publish(self) -> File:
        whole = self._directory / self._name
        self._hidden.replace(whole)
        return File(self._name, self._rows, self._first, self._last, whole.stat().st_size)

    def abandon(self) -> None:
        with suppress(OSError, pa.ArrowException, ValueError):
            self._writer.close()
        self._file.close()
        self._hidden.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Syncs a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
