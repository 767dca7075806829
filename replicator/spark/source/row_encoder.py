"""Converts columns of rows to messages; Arrow assembles their properties, without an object for each."""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ConfigError
from replicator.protocol.properties import BROKER_MADE, MAX_PROPERTIES
from replicator.spark.source.property_column import MAP

__all__ = ["Row", "rows_of"]

_PAIRS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_BROKER_MADE: Final = pa.array([name.decode() for name in BROKER_MADE])
#: Columns that win over the properties of these names.
_OWN: Final = {"TAGS": "tags", "KEYS": "keys"}


class Row(NamedTuple):
    """A message to send; `broker` and `queue_id` name the target queue, or both are None."""

    topic: str
    body: bytes
    properties: bytes
    flag: int = 0
    broker: str | None = None
    queue_id: int | None = None


def rows_of(batch: pa.RecordBatch, topic: str | None) -> list[Row]:
    """The rows of `batch`.

    Args:
        topic: of all rows; None: the column has it.

    Raises:
        ConfigError: a row cannot be sent as a message; names the column, with a hint.
    """
    bodies, topics = _column(batch, "body", pa.binary()), _column(batch, "topic", pa.string())
    if bodies.null_count:
        raise ConfigError("a row has no body", hint="leave such rows out")
    if topic is None and topics.null_count:
        raise ConfigError("a row has no topic", hint="give the option topic, or leave such rows out")
    columns = (
        topics if topic is None else pa.repeat(topic, batch.num_rows),
        bodies,
        _properties(batch),
        pc.fill_null(_column(batch, "flag", pa.int32()), 0),
        _column(batch, "brokerName", pa.string()),
        _column(batch, "queueId", pa.int32()),
    )
    return [Row(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    there = name in batch.schema.names
    return batch.column(name).cast(kind) if there else pa.nulls(batch.num_rows, kind)


def _properties(batch: pa.RecordBatch) -> pa.Array:
    """Properties as brokers store them, in the order of the maps; those that a map lacks are appended."""
    maps = _column(batch, "properties", MAP).cast(_PAIRS)
    rows, pairs = pc.list_parent_indices(maps), maps.flatten()
    names, values = pc.struct_field(pairs, 0), pc.struct_field(pairs, 1)
    if values.null_count:
        name = names.filter(pc.is_null(values))[0].as_py()
        raise ConfigError(f"property {name!r} of a row is null", hint="leave it out, or give it an empty text")
    _refuse_separators(names, names)
    _refuse_separators(names, values)
    pieces = []
    for name, column in _OWN.items():
        own, mine = _column(batch, column, pa.string()), pc.equal(names, name)
        _refuse_separators(pa.repeat(name, len(own)), own)
        values = pc.if_else(mine, pc.coalesce(own.take(rows), values), values)
        pieces.append(_pair(name, pc.if_else(_among(batch, rows.filter(mine)), None, own)))
    keyed = _among(batch, rows.filter(pc.equal(names, "UNIQ_KEY")))
    made = [None if there else uuid.uuid4().hex.upper() for there in keyed.to_pylist()]
    pieces.append(_pair("UNIQ_KEY", pa.array(made, type=pa.string())))

    # Lists without properties that brokers set; the number of kept entries before its end bounds each list.
    kept = pc.invert(pc.is_in(names, value_set=_BROKER_MADE))
    before = pa.concat_arrays([pa.array([0]), pc.cumulative_sum(kept.cast(pa.int64()))])
    counts = pc.fill_null(pc.list_value_length(maps), 0).cast(pa.int64())
    bounds = before.take(pa.concat_arrays([pa.array([0]), pc.cumulative_sum(counts)])).cast(pa.int32())
    lists = pa.ListArray.from_arrays(bounds, _pair(names, values).filter(kept))
    joined = pc.binary_join(lists, "\x02")
    joined = pc.if_else(pc.equal(joined, ""), None, joined)
    raw = pc.binary_join_element_wise(joined, *pieces, "\x02", null_handling="skip")
    raw = pc.binary_join_element_wise(raw, "", "\x02").cast(pa.binary())
    longest = pc.max(pc.binary_length(raw)).as_py() or 0
    if longest > MAX_PROPERTIES:
        raise ConfigError(
            f"the properties of a message have {longest} bytes", hint=f"{MAX_PROPERTIES} are possible"
        )
    return raw


def _pair(name: str | pa.Array, values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(name, values, "\x01")


def _among(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
    """For each row, whether its number is in `rows`."""
    return pc.is_in(pa.array(range(batch.num_rows), type=pa.int64()), value_set=rows)


def _refuse_separators(names: pa.Array, texts: pa.Array) -> None:
    """Refuses the characters 1 and 2: brokers separate names and values of properties with them."""
    found = pc.or_(pc.match_substring(texts, "\x01"), pc.match_substring(texts, "\x02"))
    if pc.any(found).as_py():
        name = names.filter(found)[0].as_py()
        raise ConfigError(f"property {name!r} has the character 1 or 2 in it", hint="brokers cannot keep those")
