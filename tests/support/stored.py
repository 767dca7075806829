"""Messages as brokers store them, for tests of what reads them without a broker."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from replicator.protocol.message import StoredMessage

__all__ = ["encoded", "stored"]


def stored(offset: int, *, time: int = 0, size: int = 0, properties: bytes = b"") -> bytes:
    """A message of topic `T` with a body of `size` zero bytes, stored at `time` (milliseconds since the epoch)."""
    rest = struct.pack(">IIIIQQI", 0xDAA320A7, 0, 0, 0, offset, 0, 0)
    rest += bytes(16) + struct.pack(">Q", time) + bytes(8) + struct.pack(">IQ", 0, 0)
    rest += struct.pack(">I", size) + bytes(size) + b"\x01T" + struct.pack(">H", len(properties)) + properties
    return struct.pack(">I", 4 + len(rest)) + rest


def encoded(messages: Iterable[StoredMessage]) -> bytes:
    """Messages of topic `T` in the body of an answer to a pull."""
    return b"".join(map(_encoded, messages))


def _encoded(message: StoredMessage) -> bytes:
    rest = struct.pack(">IIIi", 0xDAA320A7, message.body_crc, 0, message.flag)
    rest += struct.pack(">QQi", message.queue_offset, 0, message.sys_flag)
    rest += struct.pack(">qQQQ", message.born_timestamp, 0, message.store_timestamp, 0)
    rest += struct.pack(">iQ", message.reconsume_times, 0) + message.body
    rest += b"\x01T" + struct.pack(">H", len(message.properties)) + message.properties
    return struct.pack(">I", 4 + len(rest)) + rest
