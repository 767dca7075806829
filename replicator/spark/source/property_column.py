"""Converts the properties of many messages to a column of maps, without an object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator.protocol import properties

__all__ = ["MAP", "map_of"]

MAP: Final = pa.map_(pa.string(), pa.string())


def map_of(bare: Sequence[bytes]) -> pa.MapArray:
    """The result of `properties.decode` for each; none may end in 0x02."""
    try:
        parts = pc.split_pattern(pa.array(bare, type=pa.string()), "\x02")
        pairs = pc.split_pattern(parts.flatten(), "\x01", max_splits=1)
        found = pa.MapArray.from_arrays(parts.offsets, pc.list_element(pairs, 0), pc.list_element(pairs, 1))
    except pa.ArrowInvalid:  # not UTF-8, no properties, or not in the form that brokers write
        found = None
    if found is None or _repeats(found):
        found = pa.array([list(properties.decode(each).items()) for each in bare], type=MAP)
    return found


def _repeats(maps: pa.MapArray) -> bool:
    """Whether a name occurs twice in one map, which Spark does not support."""
    names = maps.keys.dictionary_encode()
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(maps.offsets, maps.keys)).cast(pa.int64())
    places = pc.add(pc.multiply(rows, len(names.dictionary)), names.indices.cast(pa.int64()))
    return bool(pc.count_distinct(places).as_py() < len(places))
