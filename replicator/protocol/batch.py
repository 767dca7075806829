"""The batch request (320): the one way to send a message on without changing it.

Per message: size u32, magic u32 = 0, bodyCRC u32, flag i32, bodyLength u32, body, propertiesLength u16,
properties. One sysFlag, bornTimestamp and reconsumeTimes hold for the whole batch, so messages that
differ there cannot share one. Source: `MessageDecoder.encodeMessage` in apache/rocketmq.
"""

from __future__ import annotations

import struct
from typing import Final

from replicator.protocol.message import COMPRESSION, MULTI_TAGS, checksum
from replicator.protocol.properties import MAX_PROPERTIES

__all__ = [
    "KEPT_SYS_FLAGS",
    "entry",
    "extended",
    "header_fields",
    "new_entry",
    "pack_head",
    "pack_length",
    "size_of",
    "unpack",
]

#: What is sent on of a message's sysFlag: compression and multi-tag bits. Transaction bits would make a
#: committed message a half message again, and the host bits describe the source's hosts.
KEPT_SYS_FLAGS: Final = COMPRESSION | MULTI_TAGS

#: (size, 0, bodyCRC, flag): what stands before bodyLength and body.
pack_head = struct.Struct(">IIIi").pack
#: (propertiesLength): what stands between body and properties.
pack_length = struct.Struct(">H").pack

_HEAD: Final = struct.Struct(">IIIiI")


def entry(body: bytes, properties: bytes, *, body_crc: int, flag: int) -> bytes:
    """One message in a batch's body.

    Args:
        body: with its u32 length in front.
        properties: at most `MAX_PROPERTIES` bytes.
    """
    size = len(properties)
    return b"".join((pack_head(18 + len(body) + size, 0, body_crc, flag), body, pack_length(size), properties))


def new_entry(body: bytes, properties: bytes, *, flag: int = 0) -> bytes:
    """One new message in a batch's body, with its checksum.

    Args:
        body: bare.
        properties: at most `MAX_PROPERTIES` bytes.
    """
    return entry(len(body).to_bytes(4) + body, properties, body_crc=checksum(body), flag=flag)


def size_of(entries: bytes, at: int) -> int:
    """Bytes of the entry that begins at `at`."""
    return int.from_bytes(entries[at : at + 4])


def unpack(entries: bytes) -> tuple[int, int, bytes, bytes]:
    """Checksum, flag, body (with its u32 length in front) and properties of the first entry."""
    size, _, crc, flag, length = _HEAD.unpack_from(entries)
    end = 20 + length
    return crc, flag, entries[16:end], entries[end + 2 : size]


def extended(entries: bytes, more: bytes) -> list[bytes]:
    """`entries`, in pieces, with `more` behind the properties of the first one; unchanged if they have no room.

    Args:
        more: properties, each ending in 0x02.
    """
    size, _, crc, flag, length = _HEAD.unpack_from(entries)
    end = 20 + length
    own, wider = size - end - 2, size + len(more)
    if own + len(more) > MAX_PROPERTIES:
        return [entries]
    return [
        pack_head(wider, 0, crc, flag),
        entries[16:end],
        pack_length(own + len(more)),
        entries[end + 2 : size],
        more,
        entries[size:],
    ]


def header_fields(
    *, group: str, topic: str, queue_id: int, sys_flag: int, born_timestamp: int, reconsume_times: int
) -> dict[str, str]:
    """The request's extension fields, with V2's short names (`SendMessageRequestHeaderV2`)."""
    return {
        "a": group,
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": str(sys_flag),
        "g": str(born_timestamp),
        "h": "0",
        "i": "",
        "j": str(reconsume_times),
        "k": "false",
        "m": "true",
    }
