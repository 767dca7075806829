"""Properties as a column of maps: the same as decoded one by one, whatever the others in the column are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol import properties
from replicator.spark.source.property_column import map_of

#: What brokers write, and what they would not: no name, no value, one name twice, no UTF-8, an empty part.
PARTS = st.sampled_from(
    [
        b"KEYS\x01a b",
        b"TAGS\x01\xc3\xbc",
        b"a\x01b\x01c",
        b"empty\x01",
        b"\x01x",
        b"name",
        b"KEYS\x01other",
        b"\xff\x01b",
        b"",
    ]
)
MESSAGES = st.lists(st.lists(PARTS, max_size=4).map(b"\x02".join), max_size=4)


@given(MESSAGES)
def test_maps_are_what_is_decoded(raw: list[bytes]) -> None:
    """In the order of the properties; of a name that comes twice the last value holds."""
    bare = pa.array([each.rstrip(b"\x02") for each in raw], type=pa.binary())
    assert map_of(bare).to_pylist() == [list(properties.decode(each).items()) for each in raw]
