"""Stored messages: what the answer to a pull holds, cut but not decoded.

Layout, big-endian: size u32, magic u32, bodyCRC u32, queueId u32, flag i32, queueOffset u64,
physicalOffset u64, sysFlag i32, bornTimestamp i64, bornHost 8|20, storeTimestamp u64, storeHost 8|20,
reconsumeTimes i32, preparedTransactionOffset u64, bodyLength u32, body, topic length u8|u16, topic,
propertiesLength u16, properties. Source: `MessageDecoder.decode` in apache/rocketmq. What a producer may set to
anything is signed, as it is in Java: brokers refuse a header with 4294967295 for -1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

import msgspec
from msgspec.structs import replace

from replicator.errors import ProtocolError

__all__ = ["COMPRESSION", "MULTI_TAGS", "StoredMessage", "born_hosts", "checksum", "homes", "parse_messages"]

#: Bits of sysFlag.
MULTI_TAGS: Final = 0x2
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
#: Whether and how the body is compressed: 0x700 is the type (0 and 0x300 zlib, 0x100 LZ4, 0x200 ZSTD).
COMPRESSION: Final = 0x701

_MAGIC_V1: Final = 0xDAA320A7
_MAGIC_V2: Final = 0xDAA320AB

# size, magic, crc, flag, offset, sysFlag, born, store, reconsume, body length: both hosts IPv4
_V4 = struct.Struct(">III4xiQ8xiq8xQ8xi8xI")
_HEAD = struct.Struct(">III4xiQ8xiq")
_TAIL = struct.Struct(">i8xI")

#: Bytes of the length in front of a body.
_LENGTH: Final = 4
#: Brokers store the checksum of a body without its highest bit, so that it is positive in Java.
_CRC: Final = 0x7FFFFFFF


class StoredMessage(msgspec.Struct, gc=False):
    """A message as the source broker stored it; bytes where nobody needs more.

    `body` still has its u32 length in front, because the batch request wants it so.
    Timestamps are milliseconds since the epoch.
    """

    queue_offset: int
    flag: int
    sys_flag: int
    born_timestamp: int
    store_timestamp: int
    reconsume_times: int
    body_crc: int
    body: bytes
    properties: bytes

    @property
    def body_length(self) -> int:
        """Bytes of the body as stored (compressed if it is)."""
        return len(self.body) - _LENGTH

    @property
    def content(self) -> bytes:
        """The body as stored, without its length."""
        return self.body[_LENGTH:]

    @property
    def is_damaged(self) -> bool:
        """Whether the body does not fit its checksum."""
        return self.body_crc & _CRC != checksum(self.content)

    def with_content(self, content: bytes, *, sys_flag: int) -> StoredMessage:
        """It with another body, stored as `sys_flag` says, and the checksum of that."""
        body = len(content).to_bytes(_LENGTH) + content
        return replace(self, body=body, body_crc=checksum(content), sys_flag=sys_flag)


def checksum(body: bytes | memoryview) -> int:
    """The bodyCRC of a body (`UtilAll.crc32`)."""
    return zlib.crc32(body) & _CRC


def parse_messages(data: bytes) -> list[StoredMessage]:
    """The messages in the body of an answer to a pull, in their order.

    Raises:
        ProtocolError: the bytes are no stored messages.
    """
    messages: list[StoredMessage] = []
    add = messages.append
    at, end = 0, len(data)
    unpack = _V4.unpack_from
    while at < end:
        try:
            size, magic, crc, flag, offset, sys_flag, born, stored, reconsumed, body_length = unpack(data, at)
            body_at = at + 84
            if sys_flag & 0x30:
                body_at, stored, reconsumed, body_length = _ipv6(data, at, sys_flag)
            if (offset | stored) >> 63:
                raise ProtocolError(f"a message with the offset {offset} and the store timestamp {stored}")
            topic_at = body_at + 4 + body_length
            if magic == _MAGIC_V1:
                properties_at = topic_at + 3 + data[topic_at]
            elif magic == _MAGIC_V2:
                properties_at = topic_at + 4 + int.from_bytes(data[topic_at : topic_at + 2])
            else:
                raise ProtocolError(f"a message with the unknown magic {magic:#x}")
            parts_end = properties_at + (data[properties_at - 2] << 8) + data[properties_at - 1]
        except (struct.error, IndexError):
            raise ProtocolError(f"a message that is cut off at byte {at} of {end}") from None
        stop = at + size
        if stop > end or parts_end != stop:
            raise ProtocolError(f"a message of {size} bytes at byte {at} whose parts do not add up")
        add(
            StoredMessage(
                offset,
                flag,
                sys_flag,
                born,
                stored,
                reconsumed,
                crc,
                data[body_at:topic_at],
                data[properties_at:stop],
            )
        )
        at = stop
    return messages


def born_hosts(data: bytes) -> dict[int, str]:
    """Who has sent the messages in the body of an answer to a pull: address and port, by queue offset.

    Raises:
        ProtocolError: the bytes are no stored messages.
    """
    found: dict[int, str] = {}
    for message, at in _placed(data):
        begin = at + _HEAD.size
        stop = begin + (16 if message.sys_flag & BORN_HOST_V6 else 4)
        address, port = ip_address(data[begin:stop]), int.from_bytes(data[stop : stop + 4])
        found[message.queue_offset] = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
    return found


def homes(data: bytes) -> list[tuple[str, int]]:
    """Topic and queue of each message in the body of an answer to a pull: those of a light queue are of others.

    Raises:
        ProtocolError: the bytes are no stored messages.
    """
    found = []
    for message, at in _placed(data):
        end = at + int.from_bytes(data[at : at + 4])
        topic_end = end - len(message.properties) - 2
        longer = 12 * (bool(message.sys_flag & BORN_HOST_V6) + bool(message.sys_flag & STORE_HOST_V6))
        topic_at = at + _V4.size + longer + len(message.body) - _LENGTH
        topic_at += 1 if int.from_bytes(data[at + 4 : at + 8]) == _MAGIC_V1 else 2
        found.append((data[topic_at:topic_end].decode(errors="replace"), int.from_bytes(data[at + 12 : at + 16])))
    return found


def _placed(data: bytes) -> Iterator[tuple[StoredMessage, int]]:
    """Each message, and at which byte it begins."""
    at = 0
    for message in parse_messages(data):
        yield message, at
        at += int.from_bytes(data[at : at + 4])


def _ipv6(data: bytes, at: int, sys_flag: int) -> tuple[int, int, int, int]:
    at += _HEAD.size + (20 if sys_flag & BORN_HOST_V6 else 8)
    (stored,) = struct.unpack_from(">Q", data, at)
    at += 8 + (20 if sys_flag & STORE_HOST_V6 else 8)
    reconsumed, body_length = _TAIL.unpack_from(data, at)
    return at + 12, stored, reconsumed, body_length
