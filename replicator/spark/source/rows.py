"""Messages as rows of the data source: Arrow batches of some columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import Stamp
from replicator.spark.source.offsets import Part
from replicator.spark.source.property_column import MAP, map_of

__all__ = ["assembled", "batch_of", "columns"]


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


#: Columns of one property each.
_OF_PROPERTY: Final = {"msgId": "UNIQ_KEY", "keys": "KEYS", "tags": "TAGS"}
#: Columns of one attribute each, and by what it is multiplied.
_OF_MESSAGE: Final = {
    "queueOffset": ("queue_offset", 1),
    "bornTimestamp": ("born_timestamp", 1000),
    "storeTimestamp": ("store_timestamp", 1000),
    "flag": ("flag", 1),
    "sysFlag": ("sys_flag", 1),
    "reconsumeTimes": ("reconsume_times", 1),
}
_ARROW: Final = columns(pa.timestamp("us", tz="UTC"))


def batch_of(
    part: Part,
    messages: Sequence[StoredMessage],
    bodies: Sequence[bytes | None],
    stamp: Stamp | None,
    names: Sequence[str],
) -> pa.RecordBatch:
    """The rows of `messages`, one or more, with the columns `names`; nothing is made for other columns.

    Args:
        bodies: theirs, uncompressed; not looked at unless the column is among `names`.
        stamp: puts provenance into their properties; None leaves them as they are.
    """
    made = _Made(part, messages, bodies, stamp)
    return assembled([made.column(name) for name in names], pa.schema([_ARROW.field(name) for name in names]))


class _Made:
    """Makes columns of messages."""

    def __init__(
        self, part: Part, messages: Sequence[StoredMessage], bodies: Sequence[bytes | None], stamp: Stamp | None
    ) -> None:
        self._same = {"topic": part.topic, "brokerName": part.queue.broker, "queueId": part.queue.queue_id}
        self._messages = messages
        self._bodies = bodies
        self._stamp = stamp

    def column(self, name: str) -> Any:
        """The column `name`, as an array or a list."""
        messages = self._messages
        if name in self._same:
            return [self._same[name]] * len(messages)
        if name == "body":
            return self._bodies
        if name == "properties":
            return self._maps
        if name in _OF_PROPERTY:
            return pc.map_lookup(self._maps, _OF_PROPERTY[name], "first")
        attribute, factor = _OF_MESSAGE[name]
        return [factor * getattr(message, attribute) for message in messages]

    @cached_property
    def _maps(self) -> pa.MapArray:
        stamp, messages = self._stamp, self._messages
        raw = [message.properties for message in messages] if stamp is None else stamp.renew(messages)
        return map_of(pa.array([each.rstrip(b"\x02") for each in raw], type=pa.binary()))


def assembled(values: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of columns, each a list or already an array."""
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, type=field.type)
        for column, field in zip(values, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
