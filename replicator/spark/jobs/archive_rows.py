"""Messages as rows of Parquet: all that a copy needs, to the byte, in columns that can be queried.

The columns are those of the data source `rocketmq`, with two differences: the body is as the broker stored it, and
`rawProperties` keeps properties that a map of strings cannot represent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator.protocol.columns import WIDTHS, Columns, put_together
from replicator.protocol.message import StoredMessage, checksum
from replicator.protocol.uniform_run import COMPILED
from replicator.routing.queue_map import Queue
from replicator.spark.source.property_column import bytes_of, exact_map_of
from replicator.spark.source.rows import assembled, columns

__all__ = ["SCHEMA", "batch_of", "messages_of"]

_COLUMNS: Final = columns(pa.timestamp("ms", tz="UTC"))
#: The topic is in the path, and in the metadata.
SCHEMA: Final = _COLUMNS.insert(
    _COLUMNS.get_field_index("properties") + 1, pa.field("rawProperties", pa.binary())
).remove(_COLUMNS.get_field_index("topic"))

#: Columns of numbers, by what they are of a message.
_NUMBERS: Final = {
    "offset": "queueOffset",
    "born": "bornTimestamp",
    "stored": "storeTimestamp",
    "flag": "flag",
    "sys_flag": "sysFlag",
    "reconsumed": "reconsumeTimes",
}
#: Messages, and approximate bytes, that are given out at once: what one batch to a broker can take.
_ROWS: Final = 128
_BYTES: Final = 256 * 1024


def batch_of(queue: Queue, messages: Columns) -> pa.RecordBatch:
    """The rows of `messages`, one or more."""
    count = messages.count
    maps, raw = exact_map_of(_binary(messages.properties_ends, messages.properties))
    made: dict[str, Any] = {
        "brokerName": pa.repeat(queue.broker, count),
        "queueId": pa.repeat(pa.scalar(queue.queue_id, pa.int32()), count),
        "msgId": pc.map_lookup(maps, "UNIQ_KEY", "first"),
        "keys": pc.map_lookup(maps, "KEYS", "first"),
        "tags": pc.map_lookup(maps, "TAGS", "first"),
        "body": _binary(messages.body_ends, messages.body),
        "properties": maps,
        "rawProperties": raw,
    }
    for name, column in _NUMBERS.items():
        values = pa.py_buffer(getattr(messages, name))
        made[column] = pa.Array.from_buffers(SCHEMA.field(column).type, count, [None, values])
    return assembled([made[name] for name in SCHEMA.names], SCHEMA)


def _binary(ends: Any, data: Any) -> pa.Array:
    written = pa.py_buffer(data).slice(0, ends[-1])
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), written])


def messages_of(batch: pa.RecordBatch) -> Iterator[Sequence[StoredMessage]]:
    """The messages of rows, as pulls would have brought them.

    Raises:
        ArrowInvalid: a row lacks what every message has, or has what none can have.
    """
    # A file says itself how wide its columns are; what is read by address has the width that it is read with.
    exact, body = (batch.column(name).cast(pa.binary()) for name in ("rawProperties", "body"))
    if exact.null_count:
        exact = pc.coalesce(exact, bytes_of(batch.column("properties")))
    numbers = {
        name: batch.column(column).cast(pa.int64() if WIDTHS[name] == 8 else pa.int32())
        for name, column in _NUMBERS.items()
    }
    rows = {**numbers, "body": body, "properties": exact}
    if lacking := [name for name, column in rows.items() if column.null_count]:
        raise pa.ArrowInvalid(f"a row has no {lacking[0]}")
    size = body.nbytes + exact.nbytes
    count = max(1, min(_ROWS, _BYTES * batch.num_rows // max(1, size)))
    for at in range(0, batch.num_rows, count):
        part = {name: column.slice(at, count) for name, column in rows.items()}
        yield _together(part) if COMPILED else _one_by_one(part)


def _together(rows: dict[str, pa.Array]) -> Sequence[StoredMessage]:
    places = {name: _place(column, 1, WIDTHS[name]) for name, column in rows.items() if name in WIDTHS}
    size = 0
    for name in ("body", "properties"):
        data = rows[name].buffers()[2]
        places[f"{name}_ends"], places[name] = _place(rows[name], 1, 4), 0 if data is None else data.address
        size += rows[name].nbytes
    try:
        return put_together(len(rows["body"]), places, size)
    except ValueError as error:
        raise pa.ArrowInvalid(f"a row has {error}") from None


def _place(column: pa.Array, buffer: int, width: int) -> int:
    address: int = column.buffers()[buffer].address + column.offset * width
    return address


def _one_by_one(rows: dict[str, pa.Array]) -> list[StoredMessage]:
    """Where nothing was compiled."""
    columns = (*_NUMBERS, "body", "properties")
    return [
        StoredMessage(
            queue_offset=offset,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp=born,
            store_timestamp=stored,
            reconsume_times=reconsumed,
            body_crc=checksum(body),
            body=len(body).to_bytes(4) + body,
            properties=own + b"\x02" if own else b"",
        )
        for offset, born, stored, flag, sys_flag, reconsumed, body, own in zip(
            *(rows[name].to_pylist() for name in columns), strict=True
        )
    ]
