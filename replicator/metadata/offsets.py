"""Consumer offsets, translated by the exact offset map. Pure.

An offset X at the source says: all before X is consumed. At the target the same is said by the offset behind
the last copy of a message before X. It never goes backwards, never past what is copied, and never over a
message that the group has not read: not one that others wrote to the target queue either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from replicator.metadata.action import Action, Commit
from replicator.metadata.pop_checkpoints import Held
from replicator.routing.offset_map import OffsetMap
from replicator.routing.queue_map import Queue

__all__ = ["KIND", "CopiedQueue", "GroupQueue", "GroupStanding", "QueueLookup", "plan_offsets", "standing"]

KIND: Final = "offsets"


@dataclass(frozen=True, slots=True)
class CopiedQueue:
    """A source queue, its target, and how far its copy is.

    `position` is the next source offset to settle, `start` the one where its copy began. `floor` is the target
    offset from which on there are copies of the source queue as it is now, `oldest` the first that there is: before
    `floor` are copies of what the source queue was before it was truncated or recreated. `copied_until` is when the
    source stored the last message that was copied, in milliseconds since the epoch; 0: not known. What the target
    queue has between the two offsets of `unread` is not in `offsets`: it was too much to be read at once.
    """

    source: Queue
    target: Queue
    target_topic: str
    position: int
    start: int
    offsets: OffsetMap
    floor: int
    copied_until: int = 0
    oldest: int = 0
    unread: tuple[int, int] = (0, 0)


#: What is known of a source queue, given its topic; None when its copy has not begun.
QueueLookup = Callable[[str, Queue], CopiedQueue | None]


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """A group in one queue: the offsets next to consume at both sides, the target's None where it has none.

    `found` is its place as it was looked up in the target queue, where the offset map does not reach back so
    far. `returned` is the target offset behind the last message before its place at the source that was born
    at the target, None where there is none.

    `end` is where the target queue ends, if `target` lies behind that: the topic was recreated, and the broker has
    kept an offset of the one before.

    POP consumers hold `in_flight` messages from `source` on without having acknowledged them, and have acknowledged
    `acknowledged_after` ones behind the first of these. `delivered` is the group's own offset at the source then,
    and `held` those messages before it; None and empty where not all of them are known. A failover puts
    `to_retry_topic` of them, all that are at the target, into the group's retry topic there; `held_back_by` says
    why it does not, and leaves the group before the first of them.
    """

    group: str
    topic: str
    queue: CopiedQueue
    source: int
    target: int | None
    found: int | None = None
    returned: int | None = None
    in_flight: int = 0
    acknowledged_after: int = 0
    end: int | None = None
    delivered: int | None = None
    held: tuple[Held, ...] = ()
    to_retry_topic: int = 0
    held_back_by: str = ""


class GroupStanding(NamedTuple):
    """Where a group would continue at the target.

    `exact` is the offset that means the same as the group's offset at the source, `offset` how far it can be moved
    now: not over a foreign message, which then is at `foreign`. From its present offset it would read `redelivered`
    copies that it has consumed already, and miss `missed` ones that it has not; `without_offset` it would start
    where its clients choose, or, with one from behind the queue's end, behind whatever has come by then. It has
    consumed `not_copied` messages that are not copied yet, and would never see the `before_start` ones from before
    the first copied one. It receives again the `in_flight` ones that it has not acknowledged,
    `to_retry_topic` of them from its retry topic, and the `acknowledged_after` ones behind the first of the others.
    """

    exact: int
    offset: int
    foreign: int | None
    redelivered: int
    missed: int
    without_offset: bool
    not_copied: int
    before_start: int
    in_flight: int
    to_retry_topic: int
    acknowledged_after: int


def standing(place: GroupQueue) -> GroupStanding:
    """Where the group stands at the target, from what is known of both sides."""
    queue, current = place.queue, place.target
    exact = offset = _exact(place)
    begin = queue.floor if exact >= queue.floor else queue.oldest
    if current is not None and current < exact:
        offset = queue.offsets.reach(max(current, place.returned or 0, begin), exact)
    here = begin if current is None else current
    return GroupStanding(
        exact=exact,
        offset=offset,
        foreign=offset if offset < exact and not _is_unread(queue, offset) else None,
        redelivered=queue.offsets.count(here, exact) + _unread(queue, here, exact),
        missed=queue.offsets.count(exact, here),
        without_offset=current is None or place.end is not None,
        not_copied=max(0, place.source - queue.position),
        before_start=max(0, queue.start - place.source),
        in_flight=place.in_flight,
        to_retry_topic=place.to_retry_topic,
        acknowledged_after=place.acknowledged_after,
    )


def _is_unread(queue: CopiedQueue, offset: int) -> bool:
    start, stop = queue.unread
    return start <= offset < stop


def _unread(queue: CopiedQueue, start: int, stop: int) -> int:
    """Messages at target offsets in [start, stop) that nobody has read: they are taken for copies."""
    return max(0, min(stop, queue.unread[1]) - max(start, queue.unread[0]))


def _exact(place: GroupQueue) -> int:
    """The target offset behind the last message before the group's place."""
    if place.found is not None:
        return max(place.found, place.returned or 0)
    offsets = place.queue.offsets
    run = offsets.run_before(place.source)
    behind = 0 if run is None else run.target + min(run.length, place.source - run.source)
    if behind or place.returned is not None:
        return max(behind, place.returned or 0)
    return place.queue.floor if offsets.first is None else offsets.first.target


def plan_offsets(
    places: Iterable[GroupQueue],
    *,
    live: Collection[str],
    forced: Collection[str] = (),
) -> list[Action]:
    """What is to be committed at the target.

    Args:
        live: groups that have consumers at the target.
        forced: groups whose offsets are written all the same, backwards too.
    """
    actions = []
    for place in places:
        group_standing = standing(place)
        force = place.group in forced
        wanted = group_standing.exact if force else group_standing.offset
        if wanted == place.target:
            continue
        backwards = place.target is not None and wanted < place.target
        if backwards and not force and not group_standing.missed and place.end is None:
            continue  # the messages between are not copies: the group has read them at the target
        target = place.queue.target
        actions.append(
            Action(
                kind=KIND,
                broker=target.broker,
                key=f"{place.group} in {place.queue.target_topic} queue {target.queue_id}",
                before=None if place.target is None else {"offset": place.target},
                after={"offset": wanted},
                write=Commit(place.group, place.queue.target_topic, target.queue_id, wanted),
                blocked="" if force else _blocked(place, group_standing, live=place.group in live),
                note=_note(place, group_standing),
            )
        )
    return actions


def _blocked(place: GroupQueue, group_standing: GroupStanding, *, live: bool) -> str:
    if place.end is not None and group_standing.offset > place.end:
        return f"it is not known where it is at the target, where the queue ends at {place.end} now"
    if place.end is None and place.target is not None and group_standing.offset < place.target:
        return f"it is {group_standing.missed:,} copies ahead at the target, and is moved back only if forced"
    return "it has consumers at the target: its offsets are kept unless forced" if live else ""


def _note(place: GroupQueue, group_standing: GroupStanding) -> str:
    if place.end is not None:
        return f"its offset at the target, {place.target}, is behind the end of the queue, {place.end}"
    if group_standing.foreign is not None:
        return f"it has not read a foreign message at offset {group_standing.foreign}, and is not moved past it"
    if group_standing.before_start:
        return f"{group_standing.before_start:,} messages from before the first copied one are not at the target"
    return ""
