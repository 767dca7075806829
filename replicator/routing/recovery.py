"""Where a queue's copy stands, read from the target itself.

The target's messages carry their source offsets, so the last of them says what was really stored,
whatever a dead process or a lost answer left unknown. What is persisted only shortens the read.

A broker shows a message some time after it has stored it. A read here returns what is shown; `TargetCheck` reads
twice, with a barrier between, where that matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from replicator.client.brokers import max_offset
from replicator.client.endpoint import Endpoint
from replicator.client.queue_range import read_range
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.provenance import Provenance
from replicator.routing.seal import MOST_MESSAGES, Sealer, Seals

__all__ = ["CopyRecord", "Tail", "first_copy", "last_copy", "read_on", "read_tail"]

#: Offsets of the first step back; each further step is twice as long.
_STEP: Final = 32

Mine = Callable[[Provenance], bool]


class CopyRecord(NamedTuple):
    """A copy: its source offset, when the source stored it (ms), and its target offset."""

    source: int
    stored: int
    target: int


@dataclass(slots=True)
class Tail:
    """The end of a target queue.

    `end` is the next offset; `copies` are ours in order, `last` is the last of them. `recreated` says that the
    source queue started over among them: `copies` are those since then. `known_holds` says whether what was
    known before is still there. Of the messages read at target offset `counted` or later, others wrote
    `foreign`, and `duplicates` came twice. Where the group has a secret, `unsealed` messages after the last copy
    claim to be copies and have no seal: they are not believed, and are foreign. `doubted`: there was any such.
    """

    seals: Seals
    end: int = 0
    last: CopyRecord | None = None
    copies: list[CopyRecord] = field(default_factory=list)
    recreated: bool = False
    known_holds: bool = False
    foreign: int = 0
    duplicates: int = 0
    unsealed: int = 0
    doubted: bool = False
    counted: int = 0

    def take(self, message: StoredMessage, mine: Mine) -> None:
        """Adds the message at `end`."""
        self.end = message.queue_offset + 1
        found = provenance.of(message, self.seals.topic)
        ours = found is not None and mine(found)
        if found is None or not ours or not self.seals.prove(message, found):
            self.unsealed += ours
            self.doubted |= ours
            self.foreign += message.queue_offset >= self.counted
            return
        self.unsealed = 0
        last = self.last
        if last is not None and found.offset <= last.source:
            # An offset that comes again is a duplicate, unless the source stored it later: then its queue is new.
            if found.stored <= last.stored:
                self.duplicates += message.queue_offset >= self.counted
                return
            self.copies.clear()
            self.recreated = True
        self.last = CopyRecord(found.offset, found.stored, message.queue_offset)
        self.copies.append(self.last)


async def read_tail(
    broker: Endpoint,
    topic: str,
    queue_id: int,
    *,
    mine: Mine,
    known: CopyRecord | None,
    floor: int = 0,
    counted: int = 0,
    sealer: Sealer | None = None,
) -> Tail:
    """The tail of a target queue, from what is known on, or back to the last copy.

    Args:
        broker: the target's master; a slave may not have all.
        mine: whether a message with that provenance was copied from the same source queue.
        known: the last message that was acknowledged.
        floor: target offset before which no copy counts: where the target queue ended when the source queue was
            found to be recreated or truncated.
        counted: target offset before which others' messages and duplicates after `known` have been counted.
        sealer: copies after `known` need its seals.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    search = partial(_search, broker, topic, queue_id, mine=mine, sealer=sealer)
    if known is None:
        return await search(floor=floor)
    tail = Tail(Seals(sealer, topic), end=known.target + 1, last=known, known_holds=True, counted=counted)
    if not await _holds(broker, topic, queue_id, mine, known, tail):
        return await search(floor=floor)
    if not tail.doubted:
        return tail
    # What is known may end in the middle of a batch, whose seal then stands before it.
    floor = max(floor, known.target + 1 - MOST_MESSAGES)
    tail = await search(floor=floor, counted=max(counted, known.target + 1), from_copy_at=known.target)
    tail.known_holds = True
    return tail


async def _search(
    broker: Endpoint,
    topic: str,
    queue_id: int,
    *,
    mine: Mine,
    sealer: Sealer | None,
    floor: int,
    counted: int | None = None,
    from_copy_at: int | None = None,
) -> Tail:
    """The tail from the last copy on, or if that is wanted, from one at or before target offset `from_copy_at`.

    Args:
        counted: others' messages count from this target offset on; None: from where the queue ends now.
    """
    end = await max_offset(broker, topic, queue_id)
    counted = end if counted is None else counted
    tail = Tail(Seals(sealer, topic), end=end, counted=counted)
    step, start = _STEP, end
    while start > floor and not _reaches(tail, from_copy_at):
        stop, start = start, max(floor, start - step)
        step *= 2
        part = Tail(Seals(sealer, topic), counted=counted)
        oldest: int | None = None
        async for message in read_range(broker, topic, queue_id, start, stop):
            oldest = message.queue_offset if oldest is None else oldest
            part.take(message, mine)
        if part.last is not None:
            tail = part
            if sealer is None:
                tail.end = end  # what is after `part` was read, and is nobody's copy
        elif tail.last is None:
            tail.unsealed += part.unsealed
        if oldest is None or oldest > start:  # retention has taken what is before
            break
    await read_on(broker, topic, queue_id, tail, mine=mine)
    return tail


def _reaches(tail: Tail, offset: int | None) -> bool:
    return bool(tail.copies) and (offset is None or tail.copies[0].target <= offset)


async def read_on(broker: Endpoint, topic: str, queue_id: int, tail: Tail, *, mine: Mine) -> None:
    """Adds what is stored after `tail.end` by now."""
    async for message in read_range(broker, topic, queue_id, tail.end):
        tail.take(message, mine)


async def _holds(broker: Endpoint, topic: str, queue_id: int, mine: Mine, known: CopyRecord, tail: Tail) -> bool:
    """Whether the known message is what it should be; adds what is stored after it to `tail`."""
    any_shown = False
    async for message in read_range(broker, topic, queue_id, known.target):
        if not any_shown and message.queue_offset == known.target:
            found = provenance.of(message, topic)
            if found is None or not mine(found) or (found.offset, found.stored) != known[:2]:
                return False
        elif message.queue_offset > known.target:
            tail.take(message, mine)
        any_shown = True
    # If the queue begins after it, retention took it, and what follows has been taken. If nothing is left,
    # retention has left the queue's end where it was; a recreated queue ends elsewhere.
    return any_shown or await max_offset(broker, topic, queue_id) == known.target + 1


async def first_copy(broker: Endpoint, topic: str, queue_id: int, *, mine: Mine, floor: int) -> int | None:
    """The source offset of the oldest copy at or after target offset `floor`."""
    async for message in read_range(broker, topic, queue_id, floor):
        found = provenance.of(message, topic)
        if found is not None and mine(found):
            return found.offset
    return None


async def last_copy(broker: Endpoint, topic: str, queue_id: int, *, look_back: int) -> Provenance | None:
    """The provenance of the last copy among the last `look_back` messages of a queue."""
    end = await max_offset(broker, topic, queue_id)
    found: Provenance | None = None
    async for message in read_range(broker, topic, queue_id, max(0, end - look_back)):
        found = provenance.of(message, topic) or found
    return found
