"""Frames: what is written can be read, in pieces of any size, and garbage ends in `ProtocolError` only."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replicator.errors import ProtocolError
from replicator.protocol import frame as module
from replicator.protocol.frame import (
    MAX_FRAME,
    ONE_WAY,
    RESPONSE,
    Frame,
    FrameDecoder,
    encode_answer,
    encode_request,
)
from tests.client.peer import feed

FIELDS = {"topic": "T", "queueOffset": "17", "übung": "日本"}


def frame(header: bytes, body: bytes = b"", *, kind: int = 0) -> bytes:
    """A frame put together by hand."""
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def binary_header(
    code: int, opaque: int, *, flag: int = 1, remark: str = "", fields: dict[str, str] | None = None
) -> bytes:
    """RocketMQ's own serialisation of a header."""
    table = b""
    for name, value in (fields or {}).items():
        table += struct.pack(">h", len(name.encode())) + name.encode()
        table += struct.pack(">i", len(value.encode())) + value.encode()
    said = remark.encode()
    return (
        struct.pack(">hBhiii", code, 12, 399, opaque, flag, len(said))
        + said
        + struct.pack(">i", len(table))
        + table
    )


def decode(pieces: Iterable[bytes]) -> list[Frame]:
    decoder = FrameDecoder()
    return [frame for piece in pieces for frame in feed(decoder, piece)]


def bytewise(data: bytes) -> Iterable[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


def test_a_request_is_read_as_it_was_written() -> None:
    """Code, opaque, fields and the joined pieces of the body come out again."""
    (read,) = decode(encode_request(320, 7, FIELDS, body=(b"ab", b"", b"c")))
    assert read == Frame(320, 7, 0, "", FIELDS, b"abc")
    assert not read.is_response


def test_a_request_has_the_header_that_brokers_read() -> None:
    """JSON with the names of `RemotingCommand`, and lengths that count what they should."""
    data = b"".join(encode_request(11, 3, {"a": "1"}, body=(b"xyz",), one_way=True))
    total, word = struct.unpack_from(">II", data)
    assert total == len(data) - 4
    assert word >> 24 == 0
    header = json.loads(data[8 : 8 + word])
    assert header["code"] == 11
    assert header["opaque"] == 3
    assert header["flag"] == ONE_WAY
    assert header["extFields"] == {"a": "1"}
    assert header["serializeTypeCurrentRPC"] == "JSON"
    assert data[8 + word :] == b"xyz"


def test_an_answer_says_that_it_is_one() -> None:
    """Its flag has the response bit, and the remark is kept."""
    (read,) = decode([encode_answer(3, 9, "not a consumer")])
    assert read.is_response
    assert (read.code, read.opaque, read.flag, read.remark) == (3, 9, RESPONSE, "not a consumer")


def test_both_serialisations_give_the_same_frame() -> None:
    """A JSON header and a binary one with the same content cannot be told apart afterwards."""
    said = {"code": 19, "opaque": 5, "flag": 1, "remark": "später", "extFields": FIELDS, "language": "JAVA"}
    one = frame(json.dumps(said).encode(), b"body")
    other = frame(binary_header(19, 5, remark="später", fields=FIELDS), b"body", kind=1)
    first, second = decode([one + other])
    assert first == second == Frame(19, 5, 1, "später", FIELDS, b"body")


def test_missing_parts_of_a_json_header_have_defaults() -> None:
    """Brokers leave out remark and fields, or write null."""
    expected = Frame(0, 1, 0, "", {}, b"")
    assert decode([frame(b'{"code":0,"opaque":1}')]) == [expected]
    assert decode([frame(b'{"code":0,"opaque":1,"remark":null,"extFields":null,"new":[1]}')]) == [expected]


WHOLE = st.lists(
    st.builds(
        lambda code, opaque, fields, body, binary: (
            frame(binary_header(code, opaque, fields=fields), body, kind=1)
            if binary
            else b"".join(encode_request(code, opaque, fields, body=(body,)))
        ),
        st.integers(0, 32767),
        st.integers(0, 2**31 - 1),
        st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3),
        st.binary(max_size=40),
        st.booleans(),
    ),
    max_size=4,
)


@given(WHOLE, st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_the_pieces_do_not_matter(frames: list[bytes], sizes: list[int]) -> None:
    """In one chunk, byte by byte, or cut anywhere: the same frames."""
    stream = b"".join(frames)
    pieces: list[bytes] = []
    at = 0
    while at < len(stream):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream[at : at + size])
        at += size
    read = decode([stream])
    assert len(read) == len(frames)
    assert decode(bytewise(stream)) == read
    assert decode(pieces) == read


@given(st.binary(max_size=200))
@example(frame(b'{"code":1,"opaque":1,"x":' + b"[" * 100_000))
@example(frame(b'{"code":1,"opaque":1,"remark":"\xff"}'))
@example(frame(binary_header(1, 1)[:-1], kind=1))
@example(frame(b"", kind=7))
def test_arbitrary_bytes_give_frames_or_a_protocol_error(data: bytes) -> None:
    """Never any other exception, whatever a peer sends."""
    try:
        assert all(isinstance(read, Frame) for read in decode([data]))
    except ProtocolError:
        return


@given(st.binary(max_size=60), st.integers(0, 1), st.binary(max_size=10))
def test_arbitrary_headers_give_frames_or_a_protocol_error(header: bytes, kind: int, body: bytes) -> None:
    """Lengths that hold, around a header of garbage."""
    try:
        (read,) = decode([frame(header, body, kind=kind)])
        assert read.body == body
    except ProtocolError:
        return


@given(st.data())
def test_a_damaged_binary_header_is_a_protocol_error_or_another_header(data: st.DataObject) -> None:
    """Flip one byte anywhere in a good one."""
    header = bytearray(binary_header(21, 4, remark="ok", fields={"name": "value", "b": ""}))
    at = data.draw(st.integers(0, len(header) - 1))
    header[at] ^= data.draw(st.integers(1, 255))
    try:
        assert len(decode([frame(bytes(header), kind=1)])) == 1
    except ProtocolError:
        return


@pytest.mark.parametrize("length", [0, 3, MAX_FRAME + 1, 2**32 - 1])
def test_impossible_lengths_are_refused_at_once(length: int) -> None:
    """Before anything of such a frame is kept in memory."""
    with pytest.raises(ProtocolError, match=str(length)):
        feed(FrameDecoder(), struct.pack(">II", length, 0))


def test_a_header_longer_than_its_frame_is_refused() -> None:
    """Its length is found out before its bytes have come."""
    with pytest.raises(ProtocolError, match="header of 90 bytes in a frame of 50"):
        feed(FrameDecoder(), struct.pack(">II", 50, 90))
    with pytest.raises(ProtocolError, match="header of 47 bytes in a frame of 50"):
        feed(FrameDecoder(), struct.pack(">II", 50, 47))
    assert feed(FrameDecoder(), struct.pack(">II", 50, 46)) == []


def test_the_limit_is_exact() -> None:
    """A frame of `max_frame` bytes passes, one more does not."""
    data = b"".join(encode_request(1, 1, {}, body=(b"x" * 100,)))
    assert len(feed(FrameDecoder(max_frame=len(data) - 4), data)) == 1
    with pytest.raises(ProtocolError):
        feed(FrameDecoder(max_frame=len(data) - 5), data)


def test_what_is_kept_never_exceeds_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However a peer drips, no more than one frame waits in memory."""
    monkeypatch.setattr(module, "_ROOM", 64)
    limit = 1000
    decoder = FrameDecoder(max_frame=limit)
    data = b"".join(encode_request(1, 1, {}, body=(b"x" * 800,)))
    for _ in range(20):
        for at in range(0, len(data), 7):
            feed(decoder, data[at : at + 7])
            assert len(decoder.room()) <= limit + 4


def test_a_length_alone_makes_no_room() -> None:
    """Memory is taken for what has come, not for what a peer says will come."""
    decoder = FrameDecoder()
    feed(decoder, struct.pack(">II", MAX_FRAME, 2) + bytes(module._ROOM - 8))
    assert len(decoder.room()) == module._ROOM


def test_room_that_a_long_frame_took_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what came behind it in the same read is still there."""
    monkeypatch.setattr(module, "_ROOM", 64)
    decoder = FrameDecoder()
    long, short = (b"".join(encode_request(n, n, {}, body=(bytes(size),))) for n, size in ((1, 5000), (2, 0)))
    assert feed(decoder, long[:-1]) == []
    room = decoder.room()
    room[0] = 0
    assert [frame.body for frame in decoder.take(1)] == [bytes(5000)]
    assert len(decoder.room()) == 64
    assert [frame.code for frame in feed(decoder, short)] == [2]


@given(WHOLE, st.integers(9, 80), st.lists(st.integers(1, 200), min_size=1, max_size=8))
def test_the_size_of_the_buffer_does_not_matter(frames: list[bytes], room: int, sizes: list[int]) -> None:
    """Frames that fill it, exceed it, or lie over its end, in reads of any size that fits."""
    stream = b"".join(frames)
    expected = decode([stream])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROOM", room)
        decoder, read, at = FrameDecoder(), list[Frame](), 0
        while at < len(stream):
            into = decoder.room()
            size = min(len(into), sizes[at % len(sizes)], len(stream) - at)
            into[:size] = stream[at : at + size]
            read += decoder.take(size)
            at += size
    assert read == expected
    assert len(read) == len(frames)


def test_two_frames_cut_anywhere_are_the_same_two() -> None:
    """At every byte: within a length, a header, a body."""
    first = b"".join(encode_request(11, 1, FIELDS, body=(b"one",)))
    second = b"".join(encode_request(12, 2, FIELDS, body=(b"two",)))
    stream = first + second
    expected = decode([stream])
    assert [frame.body for frame in expected] == [b"one", b"two"]
    for at in range(1, len(stream)):
        assert decode([stream[:at], stream[at:]]) == expected


@pytest.mark.parametrize("value", [None, "", "x", "1.5", str(2**63), pytest.param("9" * 4000, id="long")])
def test_a_field_that_is_no_number_is_a_protocol_error(value: str | None) -> None:
    """The error names the field and what stands there."""
    read = Frame(0, 1, 1, "", {"offset": value}, b"")
    with pytest.raises(ProtocolError, match="offset is") as caught:
        read.number("offset")
    assert len(str(caught.value)) < 200
    with pytest.raises(ProtocolError, match="other is None"):
        read.number("other")


def test_a_field_that_is_a_number_is_given() -> None:
    """Negative ones too."""
    assert Frame(0, 1, 1, "", {"offset": "-1"}, b"").number("offset") == -1
