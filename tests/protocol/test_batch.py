"""Entries of a batch, read by a small decoder of their own."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol.batch import KEPT_SYS_FLAGS, entry, extended, header_fields, new_entry, size_of, unpack
from replicator.protocol.properties import MAX_PROPERTIES


class Entry(NamedTuple):
    crc: int
    flag: int
    body: bytes
    properties: bytes


def read_entries(data: bytes) -> list[Entry]:
    """As `MessageDecoder.decodeMessage` does it."""
    found, at = [], 0
    while at < len(data):
        start = at
        size, magic, crc, flag, length = struct.unpack_from(">IIIiI", data, at)
        assert magic == 0
        at += 20
        body = data[at : at + length]
        at += length
        (length,) = struct.unpack_from(">H", data, at)
        at += 2
        found.append(Entry(crc, flag, body, data[at : at + length]))
        at += length
        assert at == start + size
    assert at == len(data)
    return found


BYTES = st.binary(max_size=50)
ENTRIES = st.lists(
    st.builds(Entry, st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1), BYTES, BYTES), max_size=5
)


@given(ENTRIES)
def test_entries_are_read_as_they_were_written(entries: list[Entry]) -> None:
    """Sizes, checksum, flag, body and properties, one behind the other."""
    made = [
        entry(len(each.body).to_bytes(4) + each.body, each.properties, body_crc=each.crc, flag=each.flag)
        for each in entries
    ]
    together = b"".join(made)
    assert read_entries(together) == entries
    at = 0
    for each, alone in zip(entries, made, strict=True):
        assert size_of(together, at) == len(alone)
        crc, flag, body, properties = unpack(together[at:])
        assert Entry(crc, flag, body[4:], properties) == each
        assert int.from_bytes(body[:4]) == len(each.body)
        at += len(alone)


@given(ENTRIES.filter(bool), BYTES)
def test_the_first_entry_gets_more_properties(entries: list[Entry], more: bytes) -> None:
    """All else stays, byte by byte."""
    made = [
        entry(len(each.body).to_bytes(4) + each.body, each.properties, body_crc=each.crc, flag=each.flag)
        for each in entries
    ]
    first, *others = entries
    longer = first._replace(properties=first.properties + more)
    assert read_entries(b"".join(extended(b"".join(made), more))) == [longer, *others]


@given(BYTES, BYTES, st.integers(-(2**31), 2**31 - 1))
def test_a_new_message(body: bytes, properties: bytes, flag: int) -> None:
    """Its checksum is that of the bare body, positive in Java."""
    (made,) = read_entries(new_entry(body, properties, flag=flag))
    assert made == Entry(zlib.crc32(body) & 0x7FFFFFFF, flag, body, properties)


def test_no_room_for_more_properties() -> None:
    """Their length has two bytes, of which brokers take the half."""
    full = entry(b"\x00\x00\x00\x00", b"x" * MAX_PROPERTIES, body_crc=0, flag=0)
    assert extended(full, b"y") == [full]
    almost = entry(b"\x00\x00\x00\x00", b"x" * (MAX_PROPERTIES - 1), body_crc=0, flag=0)
    assert read_entries(b"".join(extended(almost, b"y")))[0].properties == b"x" * (MAX_PROPERTIES - 1) + b"y"


def test_only_compression_and_multi_tag_bits_are_sent_on() -> None:
    """Not those of transactions (0xC) and hosts (0x30)."""
    assert KEPT_SYS_FLAGS == 0x703


def test_the_header_has_the_short_names_of_the_batch_request() -> None:
    """`SendMessageRequestHeaderV2`: group, topic, queue, sysFlag, born timestamp, reconsume times, batch."""
    fields = header_fields(
        group="G", topic="T", queue_id=3, sys_flag=0x701, born_timestamp=12345, reconsume_times=2
    )
    assert "".join(f"{name}={value} " for name, value in fields.items()) == (
        "a=G b=T c=TBW102 d=4 e=3 f=1793 g=12345 h=0 i= j=2 k=false m=true "
    )
