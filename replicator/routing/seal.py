"""Seals: what proves that copies at the target were sent by this group.

Whoever may write a target topic can write any provenance there. With the group's secret, the first message of
each batch has the property `__RPL_SEAL`: `last/count/newest/HMAC`, with the last source offset of the batch, how
many messages it has, and when the source stored the newest of them (ms). The HMAC (SHA-256, its first 16 bytes in
hexadecimal) covers these, the target cluster, the target topic, and the first message's `__RPL_SOURCE`. Brokers
store a batch as one, so what follows the first message within `count` target offsets is of the batch, if its
source offsets ascend to `last`, and nothing of it is newer. Whoever writes a batch again can so make nothing of
it but duplicates.

A message that a failover has released (`parked.py`) has an HMAC over the target cluster, which parked message it
is, and its UNIQ_KEY, as its `__RPL_SEAL`.

A message whose properties leave no room for it goes without a seal, alone or at the head of its batch: if the
acknowledgement of such a batch is lost, it is not believed and copied again.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import SEAL
from replicator.routing.provenance import SOURCE, Provenance

__all__ = ["MOST_MESSAGES", "Extent", "Sealer", "Seals"]

#: Messages that a batch has at most (`batch_messages`).
MOST_MESSAGES: Final = 10_000
#: Hexadecimal digits of the HMAC.
_DIGITS: Final = 32


class Extent(NamedTuple):
    """Of a batch: its last source offset, its number of messages, and when the source stored the newest (ms)."""

    last: int
    messages: int
    newest: int


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals and checks batches for the cluster `target` with the group's `secret`.

    `accepts_unsealed`: copies without a seal are believed as well, while workers get the secret one by one.
    """

    secret: str = field(repr=False)
    target: str
    accepts_unsealed: bool = False

    def seal(self, topic: str, source: bytes, extent: Extent) -> bytes:
        """The property, as it stands in a message, of a batch for the target topic `topic`.

        Args:
            source: the first message's `__RPL_SOURCE`.
        """
        counts = b"%d/%d/%d" % extent
        return b"%b\x01%b/%b\x02" % (SEAL, counts, self._digest(topic, source, counts))

    def extent(self, topic: str, raw: bytes) -> Extent | None:
        """What the seal in a message's properties proves; None: nothing."""
        value, source = properties.find(raw, SEAL), properties.find(raw, SOURCE)
        if value is None or source is None:
            return None
        extent, _, given = value.rpartition(b"/")
        if not hmac.compare_digest(given, self._digest(topic, source, extent)):
            return None
        last, count, newest = extent.split(b"/")
        return Extent(int(last), int(count), int(newest))

    def seal_release(self, parked: bytes, unique: bytes) -> bytes:
        """The property of a message that was released from the parked one called so, with that UNIQ_KEY."""
        return b"%b\x01%b\x02" % (SEAL, self._released(parked, unique))

    def proves_release(self, raw: bytes, parked: bytes, unique: bytes) -> bool:
        """Whether a message with the properties `raw` was released by this group, as `seal_release` seals it."""
        given = properties.find(raw, SEAL) or b""
        return self.accepts_unsealed or hmac.compare_digest(given, self._released(parked, unique))

    def _released(self, parked: bytes, unique: bytes) -> bytes:
        return self._hmac(b"release", self.target.encode(), b"%d" % len(parked), parked, unique)

    def _digest(self, topic: str, source: bytes, extent: bytes) -> bytes:
        return self._hmac(b"seal", self.target.encode(), topic.encode(), source, extent)

    def _hmac(self, *what: bytes) -> bytes:
        return hmac.digest(self.secret.encode(), b"\n".join(what), "sha256").hex()[:_DIGITS].encode()


class Seals:
    """Follows the seals of a queue of `topic` at the target, whose messages are shown in order."""

    __slots__ = ("_at", "_extent", "_sealer", "_stop", "topic")

    def __init__(self, sealer: Sealer | None, topic: str) -> None:
        self._sealer = None if sealer is None or sealer.accepts_unsealed else sealer
        self.topic = topic
        #: The sealed batch that was read last, which ends before the target offset `_stop`; and the source offset
        #: of the last message of it.
        self._extent = Extent(-1, 0, -1)
        self._stop = self._at = -1

    @property
    def any_read(self) -> bool:
        """Whether a seal was read: what is not proved before one may be of a batch that begins earlier."""
        return self._stop >= 0

    def prove(self, message: StoredMessage, found: Provenance) -> bool:
        """Whether this group sent `message`, whose provenance is `found`; always where there is no secret."""
        if self._sealer is None:
            return True
        extent = self._sealer.extent(self.topic, message.properties)
        if extent is None:
            return self.cover(message.queue_offset, found)
        self._extent, self._stop = extent, message.queue_offset + extent.messages
        self._at = found.offset
        return True

    def cover(self, at: int, found: Provenance) -> bool:
        """Whether what has no seal itself, at the target offset `at`, is of the batch that was read last."""
        extent = self._extent
        covered = at < self._stop and self._at < found.offset <= extent.last and found.stored <= extent.newest
        if covered:
            self._at = found.offset
        return covered
