"""Bodies as their producers wrote them, with any compression decoded."""

from __future__ import annotations

from replicator.errors import ProtocolError
from replicator.protocol.compression import decompress
from replicator.protocol.message import StoredMessage

__all__ = ["plain"]


def plain(message: StoredMessage) -> bytes | None:
    """The uncompressed body of `message`; None if it is damaged, or larger than 64 MiB."""
    try:
        return decompress(message.content, message.sys_flag)
    except ProtocolError:
        return None
