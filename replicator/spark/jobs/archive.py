"""Messages as rows of Parquet: all that a copy needs, to the byte, in columns that can be queried.

The columns are those of the data source `rocketmq`, with two differences: the body is as the broker stored it, and
`rawProperties` keeps properties that a map of strings cannot represent.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage, checksum
from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue
from replicator.spark.jobs.location import Location
from replicator.spark.source.property_column import map_of
from replicator.spark.source.rows import assembled, columns

__all__ = [
    "OTHER_DIRECTORY",
    "SCHEMA",
    "File",
    "Slice",
    "batch_of",
    "is_of_attempt",
    "messages_of",
    "partition",
    "read",
    "schema_of",
]

_COLUMNS: Final = columns(pa.timestamp("ms", tz="UTC"))
#: The topic is in the path, and in the metadata.
SCHEMA: Final = _COLUMNS.insert(
    _COLUMNS.get_field_index("properties") + 1, pa.field("rawProperties", pa.binary())
).remove(_COLUMNS.get_field_index("topic"))

#: Columns that an import needs, in the order of its tuples.
_NEEDED: Final = (
    "queueOffset",
    "flag",
    "sysFlag",
    "bornTimestamp",
    "storeTimestamp",
    "reconsumeTimes",
    "body",
)
#: The way out where a queue is not the one any more that an archive was begun with.
OTHER_DIRECTORY: Final = "export it into another directory"
_WHOLE: Final = "copy the complete archive"
#: The key of the topic in a file's own metadata; files of earlier versions have none.
_TOPIC: Final = b"topic"
#: Messages that are read from a file at a time, at most.
_ROWS: Final = 1024


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
        ends = ((messages[0], self.start), (messages[-1], self.end - 1))
        for (message, offset), stored in zip(ends, self.stored, strict=True):
            if stored and message.queue_offset == offset and message.store_timestamp != stored:
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


def batch_of(queue: Queue, messages: Sequence[StoredMessage]) -> pa.RecordBatch:
    """The rows of `messages`, one or more."""
    count = len(messages)
    maps, raw = _map_of([message.properties for message in messages])
    values: list[Any] = [
        [queue.broker] * count,
        [queue.queue_id] * count,
        [message.queue_offset for message in messages],
        *(pc.map_lookup(maps, name, "first") for name in ("UNIQ_KEY", "KEYS", "TAGS")),
        [message.body[4:] for message in messages],
        maps,
        raw,
        [message.born_timestamp for message in messages],
        [message.store_timestamp for message in messages],
        [message.flag for message in messages],
        [message.sys_flag for message in messages],
        [message.reconsume_times for message in messages],
    ]
    return assembled(values, SCHEMA)


def _map_of(raw: Sequence[bytes]) -> tuple[pa.Array, pa.Array]:
    """Properties as maps; and as bytes, if the map does not give the same bytes back."""
    bare = [each.rstrip(b"\x02") for each in raw]
    found = map_of(bare)
    exact = pa.array(bare, type=pa.binary())
    return found, pc.if_else(pc.equal(_bytes_of(found), exact), pa.scalar(None, pa.binary()), exact)


def _bytes_of(maps: pa.MapArray) -> pa.Array:
    """Maps as the bytes that brokers store, without the last 0x02."""
    pairs = pc.binary_join_element_wise(maps.keys, maps.items, "\x01")
    return pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), "\x02").cast(pa.binary())


def messages_of(batch: pa.RecordBatch) -> list[StoredMessage]:
    """The messages of rows, as a pull would have returned them."""
    maps, raw = batch.column("properties"), batch.column("rawProperties")
    exact = pc.coalesce(raw, _bytes_of(maps)).to_pylist()
    times = {name: batch.column(name).cast(pa.int64()) for name in ("bornTimestamp", "storeTimestamp")}
    columns = [times.get(name, batch.column(name)).to_pylist() for name in _NEEDED]
    return [
        StoredMessage(
            offset,
            flag,
            sys_flag,
            born,
            stored,
            reconsumed,
            checksum(body),
            len(body).to_bytes(4) + body,
            own + b"\x02" if own else b"",
        )
        for offset, flag, sys_flag, born, stored, reconsumed, body, own in zip(*columns, exact, strict=True)
    ]


def read(
    location: Location, queue: MessageQueue, files: Sequence[File], *, start: int
) -> Generator[list[StoredMessage]]:
    """The messages of a queue's files from offset `start` on, in order, some at a time.

    Raises:
        ReplicatorError: a file differs from the archive's manifest; nothing that shows it was returned before.
    """
    for file in files:
        if file.last < start:
            continue
        try:
            for messages in _read_file(location, queue, file):
                if messages[-1].queue_offset >= start:
                    yield [message for message in messages if message.queue_offset >= start]
        except (OSError, KeyError, pa.ArrowException) as error:
            raise ReplicatorError(
                f"{location.at(file.path)} cannot be read ({location.reason(error)})", hint=_WHOLE
            ) from None


def _read_file(location: Location, queue: MessageQueue, file: File) -> Generator[list[StoredMessage]]:
    rows, last = 0, file.first - 1
    with (
        location.open(file.path) as opened,
        pq.ParquetFile(opened, page_checksum_verification=True, pre_buffer=location.is_remote) as parquet,
    ):
        topic = (parquet.metadata.metadata or {}).get(_TOPIC)
        if topic not in (None, queue.topic.encode()):
            raise _other(location, queue, file)
        for group in range(parquet.num_row_groups):  # one at a time: others would be joined, and held in memory
            for batch in parquet.iter_batches(_ROWS, row_groups=[group]):
                messages = messages_of(batch)
                offsets = [message.queue_offset for message in messages]
                begins = offsets[0] == file.first or rows > 0
                if not begins or offsets[-1] > file.last or not _are_next(queue.queue, batch, [last, *offsets]):
                    raise _other(location, queue, file)
                rows, last = rows + len(messages), offsets[-1]
                yield messages
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
