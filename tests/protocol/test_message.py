"""Stored messages are cut exactly, in every layout that brokers use, or not at all."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ProtocolError
from replicator.protocol.message import (
    BORN_HOST_V6,
    STORE_HOST_V6,
    StoredMessage,
    born_hosts,
    homes,
    parse_messages,
)

V1, V2 = 0xDAA320A7, 0xDAA320AB


def stored(
    *,
    body: bytes = b"body",
    properties: bytes = b"KEYS\x01k\x02",
    topic: bytes = b"T",
    offset: int = 5,
    sys_flag: int = 0,
    magic: int = V1,
    body_length: int | None = None,
    properties_length: int | None = None,
    size: int | None = None,
    time: int = 2222,
    numbers: tuple[int, int, int] = (77, 1111, 4),
) -> bytes:
    """A message as a broker stores it, written independently of the code under test.

    Args:
        numbers: flag, born timestamp, reconsume times.
    """
    flag, born, reconsumed = numbers
    born_host = struct.pack(">16sI", b"b" * 16, 1) if sys_flag & BORN_HOST_V6 else struct.pack(">4sI", b"bbbb", 1)
    store_host = struct.pack(">16sI", b"s" * 16, 2) if sys_flag & STORE_HOST_V6 else struct.pack(">4sI", b"ssss", 2)
    rest = b"".join(
        (
            struct.pack(">III", magic, 0xC0FFEE, 3),  # magic, crc, queue id
            struct.pack(">iQQI", flag, offset, 999_999, sys_flag),  # flag, queue and physical offset
            struct.pack(">q", born) + born_host,
            struct.pack(">Q", time) + store_host,
            struct.pack(">iQ", reconsumed, 888),  # reconsumed, prepared transaction
            struct.pack(">I", len(body) if body_length is None else body_length) + body,
            struct.pack(">B" if magic == V1 else ">H", len(topic)) + topic,
            struct.pack(">H", len(properties) if properties_length is None else properties_length) + properties,
        )
    )
    return struct.pack(">I", 4 + len(rest) if size is None else size) + rest


LAYOUTS = list(itertools.product((V1, V2), (0, BORN_HOST_V6), (0, STORE_HOST_V6)))


@pytest.mark.parametrize(("magic", "born", "store"), LAYOUTS)
def test_every_layout(magic: int, born: int, store: int) -> None:
    """Short and long topics, IPv4 and IPv6 hosts of the sender and of the broker."""
    topic = b"t" * (200 if magic == V1 else 300)
    flag = born | store | 0x701
    (message,) = parse_messages(stored(magic=magic, sys_flag=flag, topic=topic))
    assert message.queue_offset == 5
    assert message.flag == 77
    assert message.sys_flag == flag
    assert message.born_timestamp == 1111
    assert message.store_timestamp == 2222
    assert message.reconsume_times == 4
    assert message.body_crc == 0xC0FFEE
    assert message.body == b"\x00\x00\x00\x04body"
    assert message.body_length == 4
    assert message.properties == b"KEYS\x01k\x02"


@pytest.mark.parametrize("hosts", [0, BORN_HOST_V6 | STORE_HOST_V6])
def test_numbers_of_the_producer_are_signed(hosts: int) -> None:
    """As in Java, where they are parsed again from the header of a send."""
    (message,) = parse_messages(stored(sys_flag=hosts, numbers=(-5, -1, -(2**31))))
    assert (message.flag, message.born_timestamp, message.reconsume_times) == (-5, -1, -(2**31))


def test_messages_come_in_their_order() -> None:
    """Layouts may alternate within one answer."""
    data = b"".join(
        stored(offset=i, body=b"x" * i, magic=magic, sys_flag=born | store)
        for i, (magic, born, store) in enumerate(LAYOUTS)
    )
    assert [(m.queue_offset, m.body_length) for m in parse_messages(data)] == [(i, i) for i in range(8)]


def test_nothing_is_nothing() -> None:
    """An empty body holds no message."""
    assert parse_messages(b"") == []


@pytest.mark.parametrize("properties", [b"", b"KEYS\x01k", b"KEYS\x01k\x02", b"a\x01" + b"x" * 32_000 + b"\x02"])
def test_properties_are_taken_as_they_are(properties: bytes) -> None:
    """4.9.7 leaves out the last 0x02; none at all is fine too."""
    (message,) = parse_messages(stored(properties=properties))
    assert message.properties == properties


def test_an_empty_body_keeps_its_length_field() -> None:
    """Four zero bytes, as the batch request wants it."""
    (message,) = parse_messages(stored(body=b""))
    assert message.body == bytes(4)


@pytest.mark.parametrize(("magic", "born", "store"), LAYOUTS)
def test_cut_off_at_any_byte_is_a_protocol_error(magic: int, born: int, store: int) -> None:
    """The message before it does not excuse it."""
    whole = stored(magic=magic)
    data = stored(magic=magic, sys_flag=born | store)
    for end in range(1, len(data)):
        with pytest.raises(ProtocolError):
            parse_messages(data[:end])
        with pytest.raises(ProtocolError):
            parse_messages(whole + data[:end])


LIES = {
    "size 0": stored(size=0),
    "size too small": stored(size=20),
    "size too large": stored(size=2**32 - 1),
    "size one less": stored(size=len(stored()) - 1),
    "size one more, with a byte there": stored(size=len(stored()) + 1) + b"\x00",
    "body too long": stored(body_length=5),
    "body too short": stored(body_length=3),
    "body of 4 GiB": stored(body_length=2**32 - 1),
    "properties too long": stored(properties_length=9),
    "properties too short": stored(properties_length=1),
    "properties of 64 KiB": stored(properties_length=65_535),
    "unknown magic": stored(magic=V1).replace(V1.to_bytes(4), bytes(4)),
    "blank magic of a file's end": stored(magic=V1).replace(V1.to_bytes(4), 0xCBD43194.to_bytes(4)),
    "hosts that are IPv6 by the flag only": stored().replace(
        struct.pack(">QI", 999_999, 0), struct.pack(">QI", 999_999, 0x30)
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_lengths_that_lie_are_a_protocol_error(lie: str) -> None:
    """What does not add up is never cut somewhere."""
    with pytest.raises(ProtocolError):
        parse_messages(LIES[lie])


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_protocol_error_or_nothing(data: bytes) -> None:
    """Random bytes hold no message, and raise nothing else."""
    try:
        assert parse_messages(data) == []
        assert data == b""
    except ProtocolError:
        return


@given(st.sampled_from(LAYOUTS), st.data())
def test_a_damaged_message_is_a_protocol_error_or_a_message(
    layout: tuple[int, int, int], data: st.DataObject
) -> None:
    """One byte flipped anywhere raises nothing else, and never gives bytes of a neighbour."""
    magic, born, store = layout
    damaged = bytearray(stored(magic=magic, sys_flag=born | store))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        messages = parse_messages(bytes(damaged) + stored(offset=6))
    except ProtocolError:
        return
    assert all(isinstance(message, StoredMessage) for message in messages)
    assert [message.queue_offset for message in messages][1:] == [6]


def test_who_has_sent_each_message() -> None:
    """In any mixture of layouts."""
    flags = (0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6, 0)
    data = b"".join(stored(offset=5 + n, sys_flag=flag, body=b"x" * n) for n, flag in enumerate(flags))
    four, six = "98.98.98.98:1", "[" + ":".join(["6262"] * 8) + "]:1"
    assert born_hosts(data) == {5: four, 6: six, 7: four, 8: six, 9: four}
    with pytest.raises(ProtocolError):
        born_hosts(data[:-1])


def test_topic_and_queue_of_each_message_in_every_layout() -> None:
    """Those of a light message queue are stored in others, possibly of several topics."""
    data = b"".join(
        stored(magic=magic, topic=b"T%d" % number, body=b"x" * number, sys_flag=born | store)
        for number, (magic, born, store) in enumerate(LAYOUTS)
    )
    assert homes(data) == [(f"T{number}", 3) for number in range(len(LAYOUTS))]
    with pytest.raises(ProtocolError):
        homes(data[:-1])
