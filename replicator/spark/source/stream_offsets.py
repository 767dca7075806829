"""The progress of a stream, as offsets of queues: pure functions.

Checkpoints hold it as JSON, in the form of the option `startingOffsets`: {"orders":{"broker-a":{"0":17}}} means
that the message at offset 17 is the next one. A queue that is not listed is new, and is read from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.routing.message_queue import MessageQueue
from replicator.spark.source.offsets import Part

__all__ = ["Progress", "advance", "begins", "of_json", "parts", "to_json", "until", "waiting"]

#: The next offset, by queue.
Progress = Mapping[MessageQueue, int]


def to_json(progress: Progress) -> dict[str, Any]:
    """As JSON, always in the same order, since Spark compares the text."""
    document: dict[str, Any] = {}
    for (topic, broker, queue_id), offset in sorted(progress.items()):
        document.setdefault(topic, {}).setdefault(broker, {})[str(queue_id)] = offset
    return document


def of_json(document: Mapping[str, Any]) -> dict[MessageQueue, int]:
    return {
        MessageQueue(topic, broker, int(queue_id)): int(offset)
        for topic, brokers in document.items()
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def begins(start: Progress, ends: Progress, oldest: Progress) -> dict[MessageQueue, int]:
    """The start offset of each queue of `ends`: that of `start`, or its oldest message.

    Args:
        oldest: offsets of queues that are new, or that end before their offset in `start`: those were recreated.
    """
    found = {}
    for queue, end in ends.items():
        left = start.get(queue)
        found[queue] = left if left is not None and left <= end else min(end, oldest.get(queue, 0))
    return found


def waiting(begin: Progress, ends: Progress) -> int:
    """How many offsets there are between `begin` and `ends`."""
    return sum(end - begin[queue] for queue, end in ends.items())


def advance(begin: Progress, ends: Progress, most: int | None) -> dict[MessageQueue, int]:
    """The end of a micro-batch that starts at `begin`: all that exists, or each queue's share of `most`.

    Each queue in which something waits has one offset at least, or its turn where there are more queues than that:
    by its share alone a small one would have none for as long as others are filled as fast as they are read.
    """
    left = {queue: end - begin[queue] for queue, end in sorted(ends.items())}
    total = sum(left.values())
    if most is None or total <= most:
        return dict(ends)
    queues = [queue for queue, count in left.items() if count]
    if len(queues) >= most:
        turn = sum(begin.values()) % len(queues)  # it moves on by as many offsets as a micro-batch has
        taken = dict.fromkeys([*queues[turn:], *queues[:turn]][:most], 1)
    else:
        most, total = most - len(queues), total - len(queues)
        shares = {queue: divmod(most * (left[queue] - 1), total) for queue in queues}
        taken = {queue: 1 + share for queue, (share, _) in shares.items()}
        rest = most - sum(share for share, _ in shares.values())
        for queue in sorted(queues, key=lambda queue: shares[queue][1], reverse=True)[:rest]:
            taken[queue] += 1
    return {queue: begin[queue] + taken.get(queue, 0) for queue in ends}


def until(ends: Progress, start: Progress, last: Progress) -> dict[MessageQueue, int]:
    """`ends` without messages that came after `last`, except those that `start` already includes."""
    known = {queue: max(last.get(queue, 0), start.get(queue, 0)) for queue in {*last, *start}}
    return {queue: min(end, known[queue]) for queue, end in ends.items() if queue in known}


def parts(begin: Progress, end: Progress) -> list[Part]:
    """The ranges between `begin` and `end`, without empty ones."""
    return [
        Part(queue.topic, queue.queue, begin[queue], offset)
        for queue, offset in sorted(end.items())
        if offset > begin[queue]
    ]
