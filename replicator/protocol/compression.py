"""Bodies that their producer has compressed: what sysFlag says of it, and how that is undone and done again.

Source: `CompressorFactory` and `MessageSysFlag` in apache/rocketmq; type 0 is zlib from before there were types.
Java's clients write the frame format of LZ4 and ZSTD.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Protocol

import lz4.frame

from replicator.errors import ProtocolError
from replicator.protocol.message import COMPRESSION

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["MOST", "SYS_FLAGS", "CompressionType", "compress", "decompress", "head_of", "is_compressed"]

#: Bytes that a body may have once it is decompressed: more than any broker takes by default.
MOST: Final = 64 * 1024 * 1024
#: The binary logarithm of that: no more memory is taken for what a frame says that it looks back.
_WINDOW: Final = 26
#: The bit of sysFlag that says that the body is compressed; where its type begins, and how much of it there is.
_COMPRESSED: Final = 0x1
_TYPE_AT: Final = 8
_TYPES: Final = COMPRESSION >> _TYPE_AT
#: What Java's producers compress with by default.
_ZLIB_LEVEL: Final = 5
_ZSTD_LEVEL: Final = 3

CompressionType = Literal["zlib", "lz4", "zstd"]

#: The bits of sysFlag of each. Clients before 5.0 know no type: to them all that is compressed is zlib.
SYS_FLAGS: Final[dict[CompressionType, int]] = {"zlib": 0x001, "lz4": 0x101, "zstd": 0x201}


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Codec(NamedTuple):
    """`in_frames`: a body may be several frames, one after the other, as to Java's streams."""

    decompressor: Callable[[], _Decompressor]
    compress: Callable[[bytes], bytes]
    in_frames: bool


def _zstd_decompressor() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW})


_ZLIB: Final = _Codec(zlib.decompressobj, lambda body: zlib.compress(body, _ZLIB_LEVEL), in_frames=False)
#: By the type in sysFlag.
_CODECS: Final = {
    0: _ZLIB,
    1: _Codec(lz4.frame.LZ4FrameDecompressor, lz4.frame.compress, in_frames=True),
    2: _Codec(_zstd_decompressor, lambda body: zstd.compress(body, _ZSTD_LEVEL), in_frames=True),
    3: _ZLIB,
}


def is_compressed(sys_flag: int) -> bool:
    """Whether the body of a message with `sys_flag` is compressed."""
    return bool(sys_flag & _COMPRESSED)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body as its producer wrote it; one that is not compressed as it is.

    Raises:
        ProtocolError: its type of compression is unknown, it is damaged, or it has more than 64 MiB.
    """
    if not is_compressed(sys_flag):
        return body
    whole, ended = _begin(body, sys_flag, MOST)
    if not ended:
        raise ProtocolError(f"is cut off, or has more than {MOST} bytes decompressed")
    return whole


def head_of(body: bytes, sys_flag: int, most: int) -> bytes:
    """The first `most` bytes of what `decompress` gives; the rest is not decompressed.

    Raises:
        ProtocolError: as it does, but for what comes later in the body.
    """
    if not is_compressed(sys_flag):
        return body[:most]
    head, ended = _begin(body, sys_flag, most)
    if len(head) < most and not ended:
        raise ProtocolError("is cut off")
    return head


def _begin(body: bytes, sys_flag: int, most: int) -> tuple[bytes, bool]:
    """What a compressed body begins with, and whether that is all."""
    codec = _CODECS.get(sys_flag >> _TYPE_AT & _TYPES)
    if codec is None:
        raise ProtocolError(f"is compressed in an unknown way (sysFlag {sys_flag & COMPRESSION:#x})")
    found, left = b"", most
    try:
        while left:
            unpack = codec.decompressor()
            found += unpack.decompress(body, left)
            left, rest = most - len(found), unpack.unused_data
            if not unpack.eof:
                return found, False
            if not rest or not codec.in_frames:
                return found, True
            body = rest
    except (zlib.error, zstd.ZstdError, RuntimeError) as error:  # LZ4 has no type of its own for it
        raise ProtocolError(f"cannot be decompressed ({error})") from None
    return found, False


def compress(body: bytes, sys_flag: int) -> bytes:
    """`body` as a message with `sys_flag`, whose body could be decompressed, has it."""
    return _CODECS[sys_flag >> _TYPE_AT & _TYPES].compress(body) if is_compressed(sys_flag) else body
