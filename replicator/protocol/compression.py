"""Bodies that their producer has compressed: what sysFlag says of it, and zlib undone and done again.

Source: `CompressorFactory` and `MessageSysFlag` in apache/rocketmq; the type 0 is zlib of before 5.0.
"""

from __future__ import annotations

import zlib
from typing import Final

from replicator.errors import ProtocolError
from replicator.protocol.message import COMPRESSION

__all__ = ["MOST", "compress", "decompress", "is_compressed"]

#: Bytes that a body may have once it is decompressed: more than any broker takes by default.
MOST: Final = 64 * 1024 * 1024
#: Bits of sysFlag: that the body is compressed; and all of them where it is with zlib.
_COMPRESSED: Final = 0x1
_ZLIB: Final = (0x1, 0x301)
#: What Java's producers compress with by default.
_LEVEL: Final = 5


def is_compressed(sys_flag: int) -> bool:
    """Whether the body of a message with `sys_flag` is compressed."""
    return bool(sys_flag & _COMPRESSED)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body as its producer wrote it; one that is not compressed as it is.

    Raises:
        ProtocolError: it is compressed with LZ4 or ZSTD, is damaged, or has more than 64 MiB.
    """
    if not is_compressed(sys_flag):
        return body
    if sys_flag & COMPRESSION not in _ZLIB:
        raise ProtocolError("is compressed with LZ4 or ZSTD", hint="let its producers use zlib or no compression")
    unpack = zlib.decompressobj()
    try:
        whole = unpack.decompress(body, MOST)
    except zlib.error as error:
        raise ProtocolError(f"cannot be decompressed ({error})") from None
    if not unpack.eof:
        raise ProtocolError(f"is cut off, or has more than {MOST} bytes decompressed")
    return whole


def compress(body: bytes, sys_flag: int) -> bytes:
    """`body` as a message with `sys_flag`, whose body could be decompressed, has it."""
    return zlib.compress(body, _LEVEL) if is_compressed(sys_flag) else body
