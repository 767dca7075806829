"""What a simulated broker keeps: topics, and their queues of messages encoded as brokers store them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from replicator.protocol.message import checksum

__all__ = ["NewMessage", "Store", "StoredQueue", "TopicSettings"]

_MAGIC: Final = 0xDAA320A7
_V5_MAGIC: Final = 0xDAA320AB
_HEAD = struct.Struct(">IIIIiQQiq")
_STORED = struct.Struct(">Q")
_TAIL = struct.Struct(">iQI")
#: Above it the length of a topic's name needs two bytes.
_SHORT_TOPIC: Final = 127


@cache
def host_bytes(address: str) -> bytes:
    """An IPv4 address and a port as brokers store them."""
    host, _, port = address.rpartition(":")
    return socket.inet_aton(host) + int(port).to_bytes(4)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message as it was sent; `body` without its length."""

    body: bytes
    properties: bytes
    flag: int = 0
    body_crc: int | None = None
    sys_flag: int = 0
    born: int = 0
    reconsume_times: int = 0
    born_host: str = "127.0.0.1:0"


@dataclass(slots=True)
class TopicSettings:
    """A topic's own."""

    read_queues: int
    write_queues: int
    perm: int = 6
    sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StoredQueue:
    """Encoded messages from offset `first` on, and when each was stored (ms); readers see those before `shown`."""

    first: int = 0
    shown: int = 0
    messages: list[bytes] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.messages)

    def trim(self, first: int) -> None:
        """Retention deletes what comes before the offset `first`."""
        count = min(max(0, first - self.first), len(self.messages))
        del self.messages[:count], self.stored[:count]
        self.first += count


class Store:
    """All that is on the disk of one broker. `size` is where its commit log ends, in bytes."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicSettings] = {}
        self.queues: dict[tuple[str, int], StoredQueue] = {}
        self.size = 0
        self.version = 0

    def queue(self, topic: str, queue_id: int) -> StoredQueue:
        return self.queues.setdefault((topic, queue_id), StoredQueue())

    def change_topic(self, name: str, settings: TopicSettings) -> None:
        self.topics[name] = settings
        self.version += 1

    def delete_topic(self, name: str) -> None:
        self.topics.pop(name, None)
        self.version += 1
        for key in [key for key in self.queues if key[0] == name]:
            del self.queues[key]

    def append(self, topic: str, queue_id: int, message: NewMessage, *, at: int, host: str) -> int:
        """Stores `message` at the time `at` (ms); gives its offset."""
        queue = self.queue(topic, queue_id)
        offset, name = queue.end, topic.encode()
        crc = checksum(message.body) if message.body_crc is None else message.body_crc
        short = len(name) <= _SHORT_TOPIC
        length = len(name).to_bytes(1 if short else 2)
        size = 4 + 84 + len(message.body) + len(length) + len(name) + 2 + len(message.properties)
        encoded = b"".join(
            (
                _HEAD.pack(
                    size,
                    _MAGIC if short else _V5_MAGIC,
                    crc,
                    queue_id,
                    message.flag,
                    offset,
                    self.size,
                    message.sys_flag,
                    message.born,
                ),
                host_bytes(message.born_host),
                _STORED.pack(at),
                host_bytes(host),
                _TAIL.pack(message.reconsume_times, 0, len(message.body)),
                message.body,
                length,
                name,
                len(message.properties).to_bytes(2),
                message.properties,
            )
        )
        queue.messages.append(encoded)
        queue.stored.append(at)
        self.size += size
        return offset

    def show_all(self) -> None:
        """As after a start: all that is stored is dispatched."""
        for queue in self.queues.values():
            queue.shown = queue.end

    def mark(self) -> dict[tuple[str, int], int]:
        """Where its queues end now: what a backup of the disk has."""
        return {key: queue.end for key, queue in self.queues.items()}

    def go_back(self, mark: Mapping[tuple[str, int], int]) -> None:
        """Only what had been stored at the time of `mark` is left; topics stay."""
        for key, queue in self.queues.items():
            end = max(queue.first, mark.get(key, 0))
            keep = end - queue.first
            self.size -= sum(map(len, queue.messages[keep:]))
            del queue.messages[keep:], queue.stored[keep:]
            queue.shown = min(queue.shown, end)

    def held(self) -> dict[str, Any]:
        """How much there is, for histories."""
        return {f"{topic}/{queue}": q.end for (topic, queue), q in self.queues.items() if q.end}
