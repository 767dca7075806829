"""Bodies that a route compresses on their way, and bodies as their producers wrote them, to compare the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from replicator.errors import ProtocolError
from replicator.protocol.compression import SYS_FLAGS, compress, decompress, is_compressed
from replicator.protocol.message import COMPRESSION, StoredMessage

__all__ = ["BodyCompression", "plain"]


@dataclass(frozen=True, slots=True)
class BodyCompression:
    """Compresses bodies of `over` bytes or more that are not compressed yet, where that makes them smaller."""

    type: Literal["zlib", "zstd"]
    over: int

    def __call__(self, message: StoredMessage) -> StoredMessage:
        """`message` with its body compressed, or as it is."""
        if message.body_length < self.over or is_compressed(message.sys_flag):
            return message
        flags = SYS_FLAGS[self.type]
        packed = compress(message.content, flags)
        if len(packed) >= message.body_length:
            return message
        return message.with_content(packed, sys_flag=message.sys_flag & ~COMPRESSION | flags)


def plain(message: StoredMessage) -> StoredMessage:
    """`message` with its body as its producer wrote it.

    One that cannot be decompressed, or does not fit the checksum that the broker has of it, stays as it is.
    """
    if not is_compressed(message.sys_flag) or message.is_damaged:
        return message
    try:
        body = decompress(message.content, message.sys_flag)
    except ProtocolError:
        return message
    return message.with_content(body, sys_flag=message.sys_flag & ~COMPRESSION)
