"""The files of an archive: their names, what the manifest says of them, and reading them back."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import offsets_of
from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue
from replicator.spark.jobs.archive_rows import SCHEMA, messages_of
from replicator.spark.jobs.location import Location

__all__ = [
    "OTHER_DIRECTORY",
    "File",
    "Slice",
    "is_of_attempt",
    "partition",
    "read",
    "schema_of",
]

#: The way out where a queue is not the one any more that an archive was begun with.
OTHER_DIRECTORY: Final = "export it into another directory"
_WHOLE: Final = "copy the complete archive"
#: The key of the topic in a file's own metadata; files of earlier versions have none.
_TOPIC: Final = b"topic"
#: Messages that are read from a file at a time, at most.
_ROWS: Final = 1024
#: What is read: other columns are for queries.
_COLUMNS: Final = [name for name in SCHEMA.names if name not in ("msgId", "keys", "tags")]


#: A path that leads nowhere else than below its archive.
_INSIDE: Final = r"\A(?!/)(?!(?:.*/)?\.\.(?:/|\Z))[^\x00-\x1f]+\Z"


class Slice(msgspec.Struct, frozen=True):
    """Messages [start, end) of a queue; the first and the last of them were `stored` then (ms; 0: unknown)."""

    topic: str
    queue: Queue
    start: int
    end: int
    stored: tuple[int, int] = (0, 0)

    @property
    def message_queue(self) -> MessageQueue:
        return MessageQueue(self.topic, *self.queue)

    @property
    def key(self) -> str:
        """The name of the queue."""
        return str(self.message_queue)

    def refuse_others(self, messages: Sequence[StoredMessage]) -> None:
        """Refuses messages, given in order, of another queue than the one that the slice was made of.

        Raises:
            ReplicatorError: the first or the last of the slice was stored at another time.
        """
        if not messages:
            return
        offsets = offsets_of(messages)
        ends = ((0, self.start), (-1, self.end - 1))
        for (at, offset), stored in zip(ends, self.stored, strict=True):
            if stored and offsets[at] == offset and (message := messages[at]).store_timestamp != stored:
                raise ReplicatorError(
                    f"{self.key}: the message at offset {offset} was stored at {message.store_timestamp},"
                    f" the one that was there when the export began at {stored}:"
                    " the topic was deleted and recreated, or truncated",
                    hint=OTHER_DIRECTORY,
                )

    def file(self, first: int, attempt: str) -> str:
        """The name of an attempt's file that starts with the message at offset `first`."""
        return f"{quote(self.queue.broker, safe='')}-{self.queue.queue_id}-{first:020d}-{attempt}.parquet"


class File(msgspec.Struct, frozen=True):
    """A file of an archive, with its path there: `rows` messages of offsets `first` to `last`, `size` bytes."""

    path: Annotated[str, msgspec.Meta(pattern=_INSIDE)]
    rows: int
    first: int
    last: int
    size: int


#: Files of attempts, complete or not, with their directories.
_OF_ATTEMPT: Final = re.compile(r"topic=[^/]+/date=\d{4}-\d\d-\d\d/\.?[^/]+-\d+-\d{20}-[0-9a-f]{8}\.parquet")


def schema_of(topic: str) -> pa.Schema:
    """The schema of a file with messages of `topic`."""
    return SCHEMA.with_metadata({_TOPIC: topic.encode()})


def is_of_attempt(path: str) -> bool:
    """Whether a file of an archive is one that an attempt has written, complete or not."""
    return _OF_ATTEMPT.fullmatch(path) is not None


def partition(topic: str, stored: int | None = None) -> str:
    """The directory of a topic, or of its messages stored on the day of `stored` (ms, UTC)."""
    place = f"topic={quote(topic, safe='')}"
    return place if stored is None else f"{place}/date={datetime.fromtimestamp(stored / 1000, UTC).date()}"


def read(
    location: Location, queue: MessageQueue, files: Sequence[File], *, start: int
) -> Generator[Sequence[StoredMessage]]:
    """The messages of a queue's files from offset `start` on, in order, some at a time.

    Raises:
        ReplicatorError: a file differs from the archive's manifest; nothing that shows it was returned before.
    """
    for file in files:
        if file.last < start:
            continue
        try:
            for messages in _read_file(location, queue, file):
                offsets = offsets_of(messages)
                if offsets[0] >= start:
                    yield messages
                elif offsets[-1] >= start:
                    yield [message for message in messages if message.queue_offset >= start]
        except (OSError, KeyError, pa.ArrowException) as error:
            raise ReplicatorError(
                f"{location.at(file.path)} cannot be read ({location.reason(error)})", hint=_WHOLE
            ) from None


def _read_file(location: Location, queue: MessageQueue, file: File) -> Generator[Sequence[StoredMessage]]:
    rows, last = 0, file.first - 1
    with (
        location.open(file.path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True, pre_buffer=location.is_remote) as parquet,
    ):
        topic = (parquet.metadata.metadata or {}).get(_TOPIC)
        if topic not in (None, queue.topic.encode()):
            raise _other(location, queue, file)
        for group in range(parquet.num_row_groups):  # one at a time: others would be joined, and held in memory
            for batch in parquet.iter_batches(_ROWS, row_groups=[group], columns=_COLUMNS):
                offsets = batch.column("queueOffset").to_pylist()
                begins = offsets[0] == file.first or rows > 0
                if not begins or offsets[-1] > file.last or not _are_next(queue.queue, batch, [last, *offsets]):
                    raise _other(location, queue, file)
                rows, last = rows + len(offsets), offsets[-1]
                yield from messages_of(batch)
    if (rows, last) != (file.rows, file.last):
        raise ReplicatorError(
            f"{location.at(file.path)} has {rows} messages up to offset {last},"
            f" the archive says {file.rows} up to {file.last}",
            hint=_WHOLE,
        )


def _are_next(queue: Queue, batch: pa.RecordBatch, offsets: Sequence[int]) -> bool:
    """Whether the rows of a batch are all of `queue`, and `offsets` in their order, none twice."""
    names, numbers = (pc.unique(batch.column(name)).to_pylist() for name in ("brokerName", "queueId"))
    in_order = all(before < after for before, after in pairwise(offsets))
    return in_order and (names, numbers) == ([queue.broker], [queue.queue_id])


def _other(location: Location, queue: MessageQueue, file: File) -> ReplicatorError:
    return ReplicatorError(
        f"{location.at(file.path)} does not have the messages of {queue} at offsets {file.first} to {file.last},"
        " which the archive says it has",
        hint=_WHOLE,
    )
