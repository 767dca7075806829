"""Converts the properties of many messages to a column of maps, without an object for each."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator.protocol import properties
from replicator.protocol.property_pairs import split
from replicator.protocol.uniform_run import COMPILED

__all__ = ["MAP", "bytes_of", "exact_map_of", "map_of"]

MAP: Final = pa.map_(pa.string(), pa.string())


def map_of(bare: pa.Array) -> pa.MapArray:
    """The result of `properties.decode` for each, which are bytes; none may end in 0x02."""
    return exact_map_of(bare)[0]


def exact_map_of(bare: pa.Array) -> tuple[pa.MapArray, pa.Array]:
    """As `map_of`; and what is null where `bytes_of` gives the same bytes back, else those."""
    found = _split(bare) if COMPILED else None
    if found is not None:
        return found
    maps = _map_of(bare)
    return maps, pc.if_else(pc.equal(bytes_of(maps), bare), pa.scalar(None, pa.binary()), bare)


def bytes_of(maps: pa.MapArray) -> pa.Array:
    """Maps as the bytes that brokers store, without the last 0x02."""
    pairs = pc.binary_join_element_wise(maps.keys, maps.items, "\x01")
    return pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), "\x02").cast(pa.binary())


def _split(bare: pa.Array) -> tuple[pa.MapArray, pa.Array] | None:
    """By compiled code; None where text is not UTF-8, or where there are more pairs than usual."""
    try:
        bare.cast(pa.string())  # 0x01 and 0x02 are no part of other characters: what is cut there stays UTF-8
    except pa.ArrowInvalid:
        return None
    count, (ends, data) = len(bare), bare.buffers()[1:]
    if not count or data is None:
        return None
    most = count + data.to_pybytes().count(b"\x02")
    sizes = {"before": 4 * (count + 1), "name_ends": 4 * (most + 1), "value_ends": 4 * (most + 1)}
    sizes |= {"same": count, "names": data.size, "values": data.size}
    room = {name: pa.allocate_buffer(size) for name, size in sizes.items()}
    places = {name: buffer.address for name, buffer in room.items()}
    found = split(data.address, ends.address + 4 * bare.offset, count, places, most)
    if found is None:
        return None
    names, values = (
        pa.Array.from_buffers(pa.string(), found, [None, room[f"{name}_ends"], room[f"{name}s"]])
        for name in ("name", "value")
    )
    before = pa.Array.from_buffers(pa.int32(), count + 1, [None, room["before"]])
    same = pa.Array.from_buffers(pa.uint8(), count, [None, room["same"]]).cast(pa.bool_())
    return pa.MapArray.from_arrays(before, names, values), pc.if_else(same, pa.scalar(None, pa.binary()), bare)


def _map_of(bare: pa.Array) -> pa.MapArray:
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
