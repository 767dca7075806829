"""Which copies in a target queue are this group's, where that is read backwards, in parts. Pure.

Without a secret all are. With one, the group knows of most where they are: they were acknowledged. Of others the
seal decides, which stands at the head of their batch, and perhaps in the part before.
"""

from __future__ import annotations

from typing import NamedTuple

from replicator.protocol.message import StoredMessage
from replicator.routing.offset_map import OffsetMap
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue
from replicator.routing.seal import MOST_MESSAGES, Sealer, Seals

__all__ = ["Acknowledged", "Copies"]


class Acknowledged(NamedTuple):
    """What the target has acknowledged of the source queue `source`."""

    source: Queue
    offsets: OffsetMap

    def has(self, copy: Provenance, at: int) -> bool | None:
        """Whether the copy at the target offset `at` is the one that was acknowledged; None: that is not known."""
        first, last = self.offsets.first, self.offsets.last
        if first is None or last is None:
            return None
        if (copy.broker, copy.queue_id) != self.source:
            return False  # nothing else is copied to this queue
        return self.offsets.target_of(copy.offset) == at if first.source <= copy.offset <= last[0] else None


class _Unproved(NamedTuple):
    at: int
    copy: Provenance
    fingerprint: bytes


class Copies:
    """Those of a queue of the target topic `topic`, in parts that follow one another from its end to its beginning.

    Args:
        acknowledged: what is known of the queue; None: nothing.
    """

    def __init__(self, sealer: Sealer | None, topic: str, acknowledged: Acknowledged | None) -> None:
        self.topic = topic
        self._sealer = None if sealer is None or sealer.accepts_unsealed else sealer
        self._acknowledged = acknowledged
        self._seals = Seals(self._sealer, topic)
        #: What stands before the first seal of this part, and of those behind it, and may be of a batch that begins
        #: earlier.
        self._head: list[_Unproved] = []
        self._behind: list[_Unproved] = []

    def begin_part(self) -> None:
        """What is taken from now on stands before all that was taken until now."""
        self._seals = Seals(self._sealer, self.topic)
        self._behind, self._head = self._head, []

    def take(self, message: StoredMessage, copy: Provenance, fingerprint: bytes | None) -> bool:
        """Whether the next message of a part is ours; if it has a fingerprint, `end_part` may say so later."""
        is_sealed = self._seals.prove(message, copy)  # also where that is known: others behind it follow from it
        known = None
        if self._sealer is not None and self._acknowledged is not None:
            known = self._acknowledged.has(copy, message.queue_offset)
        if known is None and not is_sealed and not self._seals.any_read and fingerprint is not None:
            self._head.append(_Unproved(message.queue_offset, copy, fingerprint))
        return is_sealed if known is None else known

    def end_part(self) -> list[bytes]:
        """The fingerprints of what stands behind this part and is proved by its last seal."""
        behind, self._behind = self._behind, []
        if not self._seals.any_read:
            self._head += behind  # the batch is longer than this part
            return []
        return [each.fingerprint for each in behind if self._seals.cover(each.at, each.copy)]

    def may_be_proved_from(self, start: int) -> bool:
        """Whether a batch that begins before the target offset `start` may have some of what is not proved yet."""
        return bool(self._head) and self._head[0].at - start < MOST_MESSAGES
