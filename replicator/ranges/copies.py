"""Which messages of a target queue are copies of a source queue's, and what a copy must keep of its message."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from replicator.client.system_topics import RETRY_PREFIX
from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.protocol.compression import is_compressed
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import BROKER_MADE
from replicator.routing import provenance
from replicator.routing.body_compression import plain
from replicator.routing.provenance import PREFIX, Provenance, birthplace
from replicator.routing.queue_map import Queue
from replicator.routing.single_send import without_delay

__all__ = ["Copies", "Kept", "copies_of", "own"]

_NOT_OWN: Final = (PREFIX, *(name + b"\x01" for name in BROKER_MADE))
_UNIQUE: Final = b"UNIQ_KEY\x01"


def own(raw: bytes) -> list[bytes]:
    """Properties without ours and the brokers', sorted: a broker may change the order in a single send."""
    return sorted(part for part in raw.split(b"\x02") if part and not part.startswith(_NOT_OWN))


class Copies(NamedTuple):
    """The copies among some messages, with their source offsets, and the other messages."""

    messages: list[StoredMessage]
    offsets: list[int]
    others: list[tuple[StoredMessage, Provenance | None]]

    def and_those_of(self, more: Copies) -> Copies:
        """These, and then those of `more`."""
        return Copies(self.messages + more.messages, self.offsets + more.offsets, self.others + more.others)


def copies_of(
    cluster: str,
    queue: Queue,
    messages: Sequence[StoredMessage],
    *,
    start: int,
    end: int | None = None,
    topic: str,
) -> Copies:
    """The messages that are copies from `queue` of `cluster`.

    Copies of source offsets before `start`, or from `end` on, are left out.

    Args:
        topic: that the messages are in; where it is a group's, brokers may have put copies of others there.
    """
    found = Copies([], [], [])
    wanted = (cluster, *queue)
    for message in messages:
        copy = provenance.of(message, topic)
        if copy is None or copy[1:4] != wanted:
            found.others.append((message, copy))
        elif copy.offset >= start and (end is None or copy.offset < end):
            found.messages.append(message)
            found.offsets.append(copy.offset)
    return found


class Kept(msgspec.Struct, frozen=True):
    """The parts of a message that a copy must keep; `plain`, of a copy that is compressed, are those without that.

    A route may have compressed it on its way, now or when it was set so.
    """

    body: bytes
    flag: int
    own: list[bytes]
    header: tuple[int, int]
    origin: bytes
    stored: int
    plain: Kept | None = None

    @classmethod
    def of_source(cls, message: StoredMessage, born_here: str, *, topic: str) -> Kept:
        """Of a source message; `born_here` is its origin, unless it names another one.

        Args:
            topic: at the target. A message to be consumed again has no delay there: that is over.
        """
        raw = message.properties
        if topic.startswith(RETRY_PREFIX):
            raw = without_delay(raw)
        return cls._of(message, raw, message.store_timestamp, birthplace(message.properties, born_here.encode()))

    @classmethod
    def of_copy(cls, message: StoredMessage) -> Kept:
        """Of a copy, which has provenance."""
        copy = provenance.read(message.properties)
        assert copy is not None  # noqa: S101 - it would not be a copy
        rest = message.properties, copy.stored, copy.origin.encode()
        kept, undone = cls._of(message, *rest), plain(message)
        return kept if undone is message else replace(kept, plain=cls._of(undone, *rest))

    @classmethod
    def _of(cls, message: StoredMessage, raw: bytes, stored: int, origin: bytes) -> Kept:
        digest = hashlib.sha256(message.body).digest()
        kept = (message.sys_flag & KEPT_SYS_FLAGS, message.reconsume_times)
        return cls(digest, message.flag, own(raw), kept, origin, stored)

    def changes(self, copy: Kept) -> Iterable[tuple[str, str]]:
        """The kinds of differences of `copy`, each with a description."""
        if copy.plain is not None and not is_compressed(self.header[0]):
            copy = copy.plain
        if self.stored != copy.stored:
            yield "stale", f"stored at {self.stored} there, the copy was made of one stored at {copy.stored}"
        if self.body != copy.body:
            yield "body", f"{self.body.hex()[:12]} became {copy.body.hex()[:12]} (SHA-256)"
        if self.flag != copy.flag:
            yield "flag", f"{self.flag} became {copy.flag}"
        if self.own != copy.own and self.own != self._without_given_id(copy.own):
            names = sorted({part.partition(b"\x01")[0] for part in set(self.own) ^ set(copy.own)})
            yield "properties", b", ".join(names).decode(errors="replace")
        if self.header != copy.header:
            yield "header", f"compression and reconsume times {self.header} became {copy.header}"
        if self.origin != copy.origin:
            yield "origin", f"{self.origin.decode()} became {copy.origin.decode()}"

    def _without_given_id(self, theirs: list[bytes]) -> list[bytes]:
        """A copy's properties but for an id that its message has not: brokers of 5.x give one to a single send."""
        if any(part.startswith(_UNIQUE) for part in self.own):
            return theirs
        return [part for part in theirs if not part.startswith(_UNIQUE)]
