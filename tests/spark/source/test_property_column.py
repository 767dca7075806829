"""Properties as a column of maps: the same as decoded one by one, whatever the others in the column are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol import properties
from replicator.protocol.uniform_run import COMPILED
from replicator.spark.source import property_column
from replicator.spark.source.property_column import exact_map_of

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
ANY = st.text("abü\x01\x02", max_size=16).map(str.encode)
MESSAGES = st.lists(st.lists(PARTS, max_size=4).map(b"\x02".join) | ANY, max_size=4)


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="")), False])
@given(raw=MESSAGES, skipped=st.integers(0, 2))
def test_maps_are_what_is_decoded(raw: list[bytes], skipped: int, compiled: bool) -> None:
    """In the order of the properties; of a name that comes twice the last value holds. What is lost is said."""
    own = [each.rstrip(b"\x02") for each in raw]
    bare = pa.array(own, type=pa.binary())[skipped:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(property_column, "COMPILED", compiled)
        maps, lost = exact_map_of(bare)
    assert maps.to_pylist() == [list(properties.decode(each).items()) for each in own[skipped:]]
    again = [properties.encode(properties.decode(each)).removesuffix(b"\x02") for each in own[skipped:]]
    assert lost.to_pylist() == [
        None if one == other else other for one, other in zip(again, own[skipped:], strict=True)
    ]


@pytest.mark.skipif(not COMPILED, reason="there is nothing to compare with")
@pytest.mark.parametrize("count", [256, 257])
def test_a_message_with_many_properties(count: int) -> None:
    """More than the compiled code has room for are decoded one by one."""
    one = b"\x02".join(b"%d\x01%d" % (name, name) for name in range(count))
    bare = pa.array([b"a\x01b", one, b""], type=pa.binary())
    assert (property_column._split(bare) is None) is (count > 256)
    assert [len(each) for each in exact_map_of(bare)[0].to_pylist()] == [1, count, 0]
