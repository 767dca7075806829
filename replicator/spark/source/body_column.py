"""Bodies as their producers wrote them, with any compression decoded; Arrow has LZ4 and ZSTD."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from replicator.errors import ProtocolError
from replicator.protocol.compression import MOST, decompress
from replicator.protocol.message import COMPRESSION, StoredMessage

__all__ = ["plain"]

#: Compression bits of sysFlag for these codecs; Java's clients write the frame format of both.
_CODECS: Final = {0x101: "lz4", 0x201: "zstd"}


def plain(message: StoredMessage) -> bytes | None:
    """The uncompressed body of `message`; None if it is damaged, or larger than 64 MiB."""
    body = message.body[4:]
    codec = _CODECS.get(message.sys_flag & COMPRESSION)
    try:
        if codec is None:
            return decompress(body, message.sys_flag)
        whole = pa.CompressedInputStream(pa.BufferReader(body), codec).read(MOST + 1)
    except (OSError, ProtocolError):
        return None
    return whole if len(whole) <= MOST else None
