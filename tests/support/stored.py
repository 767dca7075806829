"""Messages as brokers store them, for tests of what reads them without a broker."""

from __future__ import annotations

import struct

__all__ = ["stored"]


def stored(offset: int, *, time: int = 0, size: int = 0, properties: bytes = b"") -> bytes:
    """A message of topic `T` with a body of `size` zero bytes, stored at `time` (milliseconds since the epoch)."""
    rest = struct.pack(">IIIIQQI", 0xDAA320A7, 0, 0, 0, offset, 0, 0)
    rest += bytes(16) + struct.pack(">Q", time) + bytes(8) + struct.pack(">IQ", 0, 0)
    rest += struct.pack(">I", size) + bytes(size) + b"\x01T" + struct.pack(">H", len(properties)) + properties
    return struct.pack(">I", 4 + len(rest)) + rest
