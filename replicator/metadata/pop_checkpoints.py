"""Messages that POP consumers hold: delivered to them, invisible to others, and not acknowledged. Pure.

A broker writes a checkpoint for each delivery, and a record for each acknowledgement, and moves the group's offset
at the delivery (`PopMessageProcessor`, `AckMessageProcessor`): the offset alone would say that what was delivered
is consumed. What is not acknowledged in time goes to a retry topic of the group (`PopReviveService`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from replicator.protocol import properties
from replicator.protocol.message import StoredMessage

__all__ = ["CHECKPOINT_TAG", "REVIVE_GROUP", "REVIVE_PREFIX", "Consumption", "Held", "InFlight", "PopCheckpoints"]

#: Where brokers keep checkpoints once they are due, one topic per cluster, and the group in which they read it.
REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"

#: The tag of checkpoints; acknowledgements have others.
CHECKPOINT_TAG: Final = "ck"

#: Checkpoints that are remembered at most.
_MOST: Final = 100_000
#: Messages of a checkpoint, as a broker gives them at most in one delivery.
_MESSAGES: Final = 32
#: Milliseconds after its due time at which a checkpoint that its broker has not seen to counts as lost.
_LOST: Final = 3_600_000


class Consumption(NamedTuple):
    """A group in a queue of a broker."""

    group: str
    topic: str
    broker: str
    queue_id: int


class Held(NamedTuple):
    """A message that a group holds: its offset, and when it was delivered last (ms, by the clock of its broker)."""

    offset: int
    popped: int


class InFlight(NamedTuple):
    """Messages of a queue that a group holds: one or more, in their order."""

    held: tuple[Held, ...]

    @property
    def first(self) -> int:
        """The offset of the first one."""
        return self.held[0].offset

    @property
    def messages(self) -> int:
        """How many there are."""
        return len(self.held)


class _Key(NamedTuple):
    topic: str
    group: str
    queue: int
    start: int
    popped: int
    broker: str


class _Record(msgspec.Struct, rename={"topic": "t", "group": "c", "queue": "q", "start": "so", "popped": "pt"}):
    topic: str
    group: str
    queue: int
    start: int
    popped: int
    #: Of a checkpoint: how many messages, their distances from the first, those acknowledged before, ms until due.
    n: int = 0
    d: list[int] = []
    bm: int = 0
    it: int = 0
    bn: str = ""
    #: Of an acknowledgement: the offset, or the offsets of a batch of them.
    ao: int = -1
    aol: list[int] = []

    def key(self, broker: str) -> _Key:
        return _Key(self.topic, self.group, self.queue, self.start, self.popped, self.bn or broker)

    def offsets(self) -> set[int]:
        """Those of a checkpoint's messages that were not acknowledged when it was written."""
        distances = self.d[:_MESSAGES] or range(min(self.n, _MESSAGES))
        return {self.start + each for index, each in enumerate(distances) if not self.bm >> index & 1}


class _Checkpoint(msgspec.Struct):
    held: set[int]
    due: int


class PopCheckpoints:
    """What the consumers of one broker hold, from its own records, in the order in which it stored them."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._open: dict[_Key, _Checkpoint] = {}
        #: When the broker stored the newest record, in milliseconds since the epoch by its own clock.
        self._latest = 0
        #: Whether there were more than can be remembered: the oldest are forgotten.
        self.overflowed = False

    def __len__(self) -> int:
        """How many checkpoints have messages that are not acknowledged."""
        return len(self._open)

    def read(self, message: StoredMessage) -> None:
        """Takes a record of the timer, where checkpoints and acknowledgements wait; others say nothing."""
        topic = properties.find(message.properties, b"REAL_TOPIC") or b""
        record = _decoded(message) if topic.startswith(REVIVE_PREFIX.encode()) else None
        if record is None:
            return
        self._latest = max(self._latest, message.store_timestamp)
        key, tag = record.key(self._broker), properties.find(message.properties, b"TAGS")
        if tag == CHECKPOINT_TAG.encode():
            held = record.offsets()
            if held:
                self._open[key] = _Checkpoint(held, record.popped + record.it)
                self._forget()
        elif key in self._open:
            held = self._open[key].held
            held.difference_update(record.aol, (record.ao,))
            if not held:
                del self._open[key]

    def revived(self, messages: Iterable[StoredMessage]) -> None:
        """Takes checkpoints that the broker has seen to: what was not acknowledged is in a retry topic."""
        for message in messages:
            record = _decoded(message)
            if record is not None:
                self._open.pop(record.key(self._broker), None)

    def in_flight(self) -> dict[Consumption, InFlight]:
        """What is held, where anything is."""
        for key in [key for key, each in self._open.items() if each.due + _LOST < self._latest]:
            del self._open[key]
        found: dict[Consumption, dict[int, int]] = {}
        for key, checkpoint in self._open.items():
            held = found.setdefault(Consumption(key.group, key.topic, key.broker, key.queue), {})
            for offset in checkpoint.held:
                held[offset] = max(key.popped, held.get(offset, 0))
        return {place: InFlight(tuple(map(Held._make, sorted(held.items())))) for place, held in found.items()}

    def _forget(self) -> None:
        if len(self._open) > _MOST:
            del self._open[next(iter(self._open))]
            self.overflowed = True


def _decoded(message: StoredMessage) -> _Record | None:
    try:
        return msgspec.json.decode(message.content, type=_Record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
