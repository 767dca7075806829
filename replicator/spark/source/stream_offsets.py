"""How far a stream has come, as offsets of queues: pure functions.

In checkpoints it stands as JSON, in the form of the option `startingOffsets`: {"orders":{"broker-a":{"0":17}}}
says that the message at offset 17 is the next one. A queue that does not stand there is new: all of it is to come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.routing.queue_map import Queue
from replicator.spark.source.offsets import Part

__all__ = ["Lane", "Progress", "advance", "begins", "of_json", "parts", "to_json", "until"]

#: A queue of a topic.
Lane = tuple[str, Queue]
#: The offset that is next, by queue.
Progress = Mapping[Lane, int]


def to_json(progress: Progress) -> dict[str, Any]:
    """Always in the same order, since Spark compares the text."""
    told: dict[str, Any] = {}
    for (topic, queue), offset in sorted(progress.items()):
        told.setdefault(topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = offset
    return told


def of_json(told: Mapping[str, Any]) -> dict[Lane, int]:
    return {
        (topic, Queue(broker, int(queue_id))): int(offset)
        for topic, brokers in told.items()
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def begins(start: Progress, ends: Progress, oldest: Progress) -> dict[Lane, int]:
    """Where each queue of `ends` is read from: where it was left, or at its oldest message.

    Args:
        oldest: of queues that are new, or that end before where they were left: those were made anew.
    """
    found = {}
    for lane, end in ends.items():
        left = start.get(lane)
        found[lane] = left if left is not None and left <= end else min(end, oldest.get(lane, 0))
    return found


def advance(begin: Progress, ends: Progress, most: int | None) -> dict[Lane, int]:
    """Where a micro-batch that begins at `begin` ends: all there is, or each queue's share of `most`."""
    waiting = {lane: end - begin[lane] for lane, end in ends.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(ends)
    taken = {lane: most * count // total for lane, count in waiting.items()}
    rest = most - sum(taken.values())
    for lane in sorted(waiting, key=lambda lane: taken[lane] - most * waiting[lane] / total)[:rest]:
        taken[lane] += 1
    return {lane: begin[lane] + count for lane, count in taken.items()}


def until(ends: Progress, start: Progress, last: Progress) -> dict[Lane, int]:
    """`ends` as if nothing had come since `last`, but for what `start` has already."""
    known = {lane: max(last.get(lane, 0), start.get(lane, 0)) for lane in {*last, *start}}
    return {lane: min(end, known[lane]) for lane, end in ends.items() if lane in known}


def parts(begin: Progress, end: Progress) -> list[Part]:
    """What lies between, without queues that have nothing there."""
    return [Part(*lane, begin[lane], offset) for lane, offset in sorted(end.items()) if offset > begin[lane]]
