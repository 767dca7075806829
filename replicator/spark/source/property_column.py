"""Converts the properties of many messages to a column of maps, without an object for each."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator.protocol import properties

__all__ = ["MAP", "map_of"]

MAP: Final = pa.map_(pa.string(), pa.string())


def map_of(bare: pa.Array) -> pa.MapArray:
    """The result of `properties.decode` for each, which are bytes; none may end in 0x02."""
    try:
        parts = pc.split_pattern(bare.cast(pa.string()), "\x02")
        pairs = pc.split_pattern(parts.flatten(), "\x01", max_splits=1)
        names, values = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    except pa.ArrowInvalid:  # not UTF-8, no properties, or not in the form that brokers write
        return pa.array([list(properties.decode(each).items()) for each in bare.to_pylist()], type=MAP)
    return _unique(parts.offsets, names, values)


def _unique(offsets: pa.Array, names: pa.Array, values: pa.Array) -> pa.MapArray:
    """Maps of the names and values from each offset to the next.

    Of a name that occurs twice in a map, which Spark does not support, the last value is in the place of the first:
    what brokers add to a batch of a producer they may have added before.
    """
    coded = names.dictionary_encode()
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, names)).cast(pa.int64())
    places = pc.add(pc.multiply(rows, len(coded.dictionary)), coded.indices.cast(pa.int64()))
    if pc.count_distinct(places).as_py() < len(places):
        at = pa.array(range(len(places)), type=pa.int64())
        found = pa.table({"place": places, "at": at}).group_by("place").aggregate([("at", "min"), ("at", "max")])
        found = found.sort_by("at_min").combine_chunks()
        first = found["at_min"].chunk(0)
        kept = pc.is_in(at, value_set=first).cast(pa.int32())
        ends = pa.concat_arrays([pa.array([0], type=pa.int32()), pc.cumulative_sum(kept)])
        offsets, names, values = ends.take(offsets), names.take(first), values.take(found["at_max"].chunk(0))
    return pa.MapArray.from_arrays(offsets, names, values)
