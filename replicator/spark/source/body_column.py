"""Bodies as their producers wrote them, whatever they are compressed with; Arrow has LZ4 and ZSTD."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from replicator.errors import ProtocolError
from replicator.protocol.compression import MOST, decompress
from replicator.protocol.message import COMPRESSION, StoredMessage

__all__ = ["plain"]

#: What sysFlag says where a body is compressed so; Java's clients write frames of either.
_CODECS: Final = {0x101: "lz4", 0x201: "zstd"}


def plain(message: StoredMessage) -> bytes | None:
    """The body of `message` uncompressed; None where it is damaged, or has more than 64 MiB so."""
    body = message.body[4:]
    codec = _CODECS.get(message.sys_flag & COMPRESSION)
    try:
        if codec is None:
            return decompress(body, message.sys_flag)
        whole = pa.CompressedInputStream(pa.BufferReader(body), codec).read(MOST + 1)
    except (OSError, ProtocolError):
        return None
    return whole if len(whole) <= MOST else None
