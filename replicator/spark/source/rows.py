"""Messages as rows of the data source: the schema, and Arrow batches with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import Stamp
from replicator.spark.source.body_column import plain
from replicator.spark.source.offsets import Part
from replicator.spark.source.property_column import MAP, map_of

__all__ = ["SCHEMA", "assembled", "batch_of", "columns"]

#: The columns as Spark's DDL.
SCHEMA: Final = (
    "topic STRING, brokerName STRING, queueId INT, queueOffset BIGINT, msgId STRING, keys STRING, tags STRING,"
    " body BINARY, properties MAP<STRING, STRING>, bornTimestamp TIMESTAMP, storeTimestamp TIMESTAMP,"
    " flag INT, sysFlag INT, reconsumeTimes INT"
)


def columns(time: pa.DataType) -> pa.Schema:
    """The columns as an Arrow schema, with times of type `time`."""
    return pa.schema(
        [
            ("topic", pa.string()),
            ("brokerName", pa.string()),
            ("queueId", pa.int32()),
            ("queueOffset", pa.int64()),
            ("msgId", pa.string()),
            ("keys", pa.string()),
            ("tags", pa.string()),
            ("body", pa.binary()),
            ("properties", MAP),
            ("bornTimestamp", time),
            ("storeTimestamp", time),
            ("flag", pa.int32()),
            ("sysFlag", pa.int32()),
            ("reconsumeTimes", pa.int32()),
        ]
    )


_ARROW: Final = columns(pa.timestamp("us", tz="UTC"))


def batch_of(part: Part, messages: Sequence[StoredMessage], stamp: Stamp | None) -> pa.RecordBatch:
    """The rows of `messages`, one or more.

    Args:
        stamp: puts provenance into their properties; None leaves them as they are.
    """
    raw = [message.properties for message in messages] if stamp is None else stamp.renew(messages)
    maps = map_of([each.rstrip(b"\x02") for each in raw])
    count = len(messages)
    values: list[Any] = [
        [part.topic] * count,
        [part.queue.broker] * count,
        [part.queue.queue_id] * count,
        [message.queue_offset for message in messages],
        *(pc.map_lookup(maps, name, "first") for name in ("UNIQ_KEY", "KEYS", "TAGS")),
        [plain(message) for message in messages],
        maps,
        [1000 * message.born_timestamp for message in messages],
        [1000 * message.store_timestamp for message in messages],
        [message.flag for message in messages],
        [message.sys_flag for message in messages],
        [message.reconsume_times for message in messages],
    ]
    return assembled(values, _ARROW)


def assembled(values: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of columns, each a list or already an array."""
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, type=field.type)
        for column, field in zip(values, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
