"""Names what differs in a segment, message by message. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from replicator.protocol.message import StoredMessage
from replicator.ranges.copies import Kept, copies_of
from replicator.routing import provenance
from replicator.routing.audit_segment import Difference
from replicator.routing.queue_map import Queue

__all__ = ["Wanted", "judge"]


class Wanted(NamedTuple):
    """A message that is to be at the target: its source offset, its target offset if that is known, and the message
    as the route sends it, if the source still has it.
    """

    source: int
    target: int | None
    message: StoredMessage | None


def judge(
    cluster: str, queue: Queue, wanted: Sequence[Wanted], found: Sequence[StoredMessage], *, topic: str
) -> list[Difference]:
    """The differences between what is to be at the target and what is there.

    Args:
        cluster, queue: where the messages come from.
        wanted: in the order of their source offsets.
        found: the messages of a range of the target queue. Those of others are ignored.
        topic: the target queue's, as in `copies_of`.
    """
    copies, copied = copies_of(cluster, queue, found, start=0, topic=topic), defaultdict(list)
    highest, late = -1, set()
    moved = _out_of_order([message.queue_offset for message in copies.messages])
    named = {each.source: each.message for each in wanted}
    for message, offset in zip(copies.messages, copies.offsets, strict=True):
        copied[offset].append(message)
        if offset < highest:
            late.add(message.queue_offset)
        if offset in named and _is_of(named[offset], message):
            highest = max(highest, offset)
    differences: list[Difference] = []
    for each in wanted:
        misplaced = moved | late if each.target is None else moved
        differences += _of_one(each, copied.pop(each.source, []), misplaced, cluster, topic)
    lowest = wanted[0].source if wanted else max(copied, default=-1) + 1
    for offset, left in sorted(copied.items()):
        for copy in left:
            if offset < lowest:
                differences.append(Difference("duplicate", offset, copy.queue_offset, "of an earlier message"))
            else:
                what = "the source has no such message to copy"
                differences.append(Difference("unknown", offset, copy.queue_offset, what))
    for message, copy_of_other in copies.others:
        if copy_of_other is not None and copy_of_other.cluster == cluster:
            place = f"{copy_of_other.broker}/{copy_of_other.queue_id}/{copy_of_other.offset}"
            differences.append(Difference("misplaced", None, message.queue_offset, f"a copy of {place}"))
    return differences


def _is_of(wanted: StoredMessage | None, copy: StoredMessage) -> bool:
    """Whether `copy` names the store time of its message, as far as that is known."""
    named = provenance.read(copy.properties)
    return wanted is None or (named is not None and named.stored == wanted.store_timestamp)


def _out_of_order(given: Sequence[int]) -> set[int]:
    """The offsets that readers get at other places than theirs, though all say where they belong.

    One that comes twice belongs to where the others stand in order.
    """
    first, last = dict.fromkeys(given), dict.fromkeys(reversed(given))
    ways = ([*first], [*reversed(last)])
    return min(
        ({one for one, other in zip(way, sorted(way), strict=True) if one != other} for way in ways), key=len
    )


def _of_one(
    wanted: Wanted, there: Sequence[StoredMessage], misplaced: set[int], cluster: str, topic: str
) -> Iterable[Difference]:
    if not there:
        yield Difference("missing", wanted.source, wanted.target)
        return
    copy = next((each for each in there if each.queue_offset == wanted.target), there[0])
    rest = [*there]
    rest.remove(copy)
    for again in rest:
        yield Difference("duplicate", wanted.source, again.queue_offset, f"also at {copy.queue_offset}")
    if wanted.target is not None and copy.queue_offset != wanted.target:
        yield Difference("reordered", wanted.source, copy.queue_offset, f"it was stored at {wanted.target}")
    elif copy.queue_offset in misplaced:
        yield Difference("reordered", wanted.source, copy.queue_offset, "its place in the queue is another one")
    changes = []
    if wanted.message is not None:
        changes = [*Kept.of_source(wanted.message, cluster, topic=topic).changes(Kept.of_copy(copy))]
    if not changes and copy.is_damaged:
        changes = [("body", "it does not fit the checksum that the target has of it")]
    for kind, detail in changes:
        yield Difference(kind, wanted.source, copy.queue_offset, detail)
