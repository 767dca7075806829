"""Frames of the remoting protocol: encode a request, cut a byte stream into frames.

A frame is `u32 length | u32 serialisation<<24 + header length | header | body`, big-endian; the
length counts all that follows it. Headers are read in both serialisations (0 JSON, 1 RocketMQ
binary) and written in JSON, which every broker takes. Source: `RemotingCommand` and
`RocketMQSerializable` in apache/rocketmq.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from replicator.errors import ProtocolError
from replicator.protocol.numbers import as_long

__all__ = ["MAX_FRAME", "ONE_WAY", "RESPONSE", "Frame", "FrameDecoder", "encode_answer", "encode_request"]

#: Bytes. Twice the 16 MiB that brokers accept by default (`com.rocketmq.remoting.frameMaxLength`),
#: since an answer to a pull may hold one message of the maximal size after 256 KiB of others.
MAX_FRAME: Final = 32 * 1024 * 1024

#: Bits of the header's `flag`.
RESPONSE: Final = 1
ONE_WAY: Final = 2

_JSON: Final = 0
_BINARY: Final = 1
_WORDS = struct.Struct(">II")
_BINARY_FIXED = struct.Struct(">hBhiii")
_HEADER_LENGTH: Final = 0xFFFFFF

#: Bytes of a decoder's buffer; it is larger only while a longer frame comes in.
_ROOM: Final = 256 * 1024


class _Header(msgspec.Struct, gc=False):
    code: int
    opaque: int
    flag: int = 0
    remark: str | None = None
    extFields: dict[str, str | None] | None = None  # noqa: N815 - the name on the wire


class _Outgoing(msgspec.Struct, gc=False):
    code: int
    opaque: int
    flag: int
    extFields: Mapping[str, str]  # noqa: N815 - the name on the wire
    remark: str | None = None
    language: str = "OTHER"
    version: int = 399
    serializeTypeCurrentRPC: str = "JSON"  # noqa: N815 - the name on the wire


_decode_json = msgspec.json.Decoder(_Header).decode
_encode_json = msgspec.json.Encoder().encode


class Frame(NamedTuple):
    """One command as it came from a peer."""

    code: int
    opaque: int
    flag: int
    remark: str
    fields: Mapping[str, str | None]
    body: bytes

    @property
    def is_response(self) -> bool:
        return self.flag & RESPONSE != 0

    def number(self, name: str) -> int:
        """The extension field `name` as an integer.

        Raises:
            ProtocolError: the field is missing, or not a number of 64 bits.
        """
        value = self.fields.get(name)
        try:
            return as_long(value)
        except ValueError:
            shown = f"{value!r:.40}"
            raise ProtocolError(f"answer with code {self.code}: field {name} is {shown}, not a number") from None


def encode_request(
    code: int, opaque: int, fields: Mapping[str, str], *, body: Sequence[bytes] = (), one_way: bool = False
) -> list[bytes]:
    """A request ready for the wire, in pieces: those of `body` are not copied."""
    head = _head(_Outgoing(code, opaque, ONE_WAY if one_way else 0, fields), sum(map(len, body)))
    return [head, *body]


def encode_answer(code: int, opaque: int, remark: str) -> bytes:
    """An answer to a request that the peer made of us."""
    return _head(_Outgoing(code, opaque, RESPONSE, {}, remark), 0)


def _head(header: _Outgoing, body_size: int) -> bytes:
    encoded = _encode_json(header)
    return _WORDS.pack(4 + len(encoded) + body_size, len(encoded)) + encoded


class FrameDecoder:
    """Cuts a stream of bytes into frames; the stream is read into the decoder's own buffer.

    Args:
        max_frame: bytes; a longer frame is a `ProtocolError`, found before it is buffered.
    """

    __slots__ = ("_buffer", "_filled", "_max_frame", "_wanted")

    def __init__(self, *, max_frame: int = MAX_FRAME) -> None:
        self._buffer = memoryview(bytearray(_ROOM))
        self._filled = 0
        self._wanted = 0
        self._max_frame = max_frame

    def room(self) -> memoryview:
        """Where the next bytes of the stream belong; at least one byte, valid until the next call."""
        if self._filled == len(self._buffer):
            # Twice as much, not all at once: a length is only what the peer says.
            self._move(0, min(self._wanted, 2 * self._filled))
        return self._buffer[self._filled :]

    def take(self, size: int) -> list[Frame]:
        """The frames that are whole now that `size` bytes have come into the `room`.

        Raises:
            ProtocolError: the peer does not speak this protocol; take nothing more.
        """
        view = self._buffer
        start, end = 0, self._filled + size
        wanted = 0
        frames: list[Frame] = []
        while end - start >= 8:
            length, word = _WORDS.unpack_from(view, start)
            if length < 4 or length > self._max_frame:
                raise ProtocolError(f"a frame of {length} bytes; 4 to {self._max_frame} are possible")
            stop = start + 4 + length
            header_end = start + 8 + (word & _HEADER_LENGTH)
            if header_end > stop:
                raise ProtocolError(f"a header of {word & _HEADER_LENGTH} bytes in a frame of {length}")
            if stop > end:
                wanted = 4 + length
                break
            header = _parse_header(word >> 24, view[start + 8 : header_end])
            frames.append(
                Frame(
                    header.code,
                    header.opaque,
                    header.flag,
                    header.remark or "",
                    header.extFields or {},
                    bytes(view[header_end:stop]),
                )
            )
            start = stop
        self._filled = end
        self._wanted = wanted
        if start:  # a longer buffer ends with its frame, so nothing is left of that then
            self._move(start, _ROOM)
        return frames

    def _move(self, start: int, size: int) -> None:
        """What lies from `start` on comes to the front of a buffer of `size` bytes."""
        left = self._buffer[start : self._filled]
        if len(self._buffer) != size:
            self._buffer = memoryview(bytearray(size))
        self._filled = len(left)
        self._buffer[: self._filled] = left


def _parse_header(serialisation: int, data: memoryview) -> _Header:
    if serialisation == _JSON:
        try:
            return _decode_json(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"a header that is not JSON: {error}") from None
    if serialisation == _BINARY:
        return _parse_binary(bytes(data))
    raise ProtocolError(f"a header in serialisation {serialisation}; 0 and 1 are known")


def _parse_binary(data: bytes) -> _Header:
    try:
        code, _language, _version, opaque, flag, remark_length = _BINARY_FIXED.unpack_from(data)
        at = _BINARY_FIXED.size
        remark = _take(data, at, remark_length).decode()
        at += remark_length
        (fields_length,) = struct.unpack_from(">i", data, at)
        at += 4
        end = at + len(_take(data, at, fields_length))
        fields: dict[str, str | None] = {}
        while at < end:
            (size,) = struct.unpack_from(">h", data, at)
            name = _take(data, at + 2, size).decode()
            at += 2 + size
            (size,) = struct.unpack_from(">i", data, at)
            fields[name] = _take(data, at + 4, size).decode()
            at += 4 + size
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"a broken binary header: {error}") from None
    return _Header(code, opaque, flag, remark, fields)


def _take(data: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(data):
        raise ProtocolError(f"a binary header's field of {size} bytes at {at} of {len(data)}")
    return data[at : at + size]
