"""Which target queue a source queue is copied to: one to one, append-only.

A source queue keeps its id where that is free. Where fewer target brokers take the queues of more
source brokers, ids are shifted; two source queues never share a target queue, or order and offsets
would be lost. Pure functions; the same input gives the same map.

Queues that the target has are used before it gets more. Then two clusters that are copied to each other come to
have equally many: each would make room for what the other has made for it, again and again, otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

from replicator.client.topics import TopicConfig

__all__ = ["MAX_QUEUES", "Queue", "QueueMap", "extend", "moved_to", "needed_queues", "write_queues"]

#: Queues of a topic on one broker. Each takes some kilobytes, and each one is asked about.
MAX_QUEUES: Final = 16_384


class Queue(NamedTuple):
    """A queue of a topic: on `broker`, with `queue_id` there; printed as `broker/queue_id`.

    A broker may have a slash in its name.
    """

    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.broker}/{self.queue_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The queue that is printed as `text`.

        Raises:
            ValueError: `text` is not of that form.
        """
        broker, _, queue_id = text.rpartition("/")
        if not broker or not (queue_id.isascii() and queue_id.isdecimal()):
            raise ValueError(f"{text!r} is not broker/queue_id")
        return cls(broker, int(queue_id))


#: Source queue to target queue, for one topic.
QueueMap = Mapping[Queue, Queue]


def extend(
    known: QueueMap,
    sources: Iterable[Queue],
    target_brokers: Sequence[str],
    *,
    left: Iterable[Queue] = (),
    existing: Iterable[Queue] = (),
) -> dict[Queue, Queue]:
    """`known` with a target for each of `sources` that has none.

    Args:
        known: stays as it is, whatever brokers exist now.
        target_brokers: names, at least one.
        left: target queues that nothing may go to: they hold what was copied there before they were given up.
        existing: queues that the target has now, to be used before it gets more.

    Returns:
        A map in which no two source queues share a target.
    """
    if not target_brokers:
        raise ValueError("no target broker")
    result = dict(known)
    taken = {*known.values(), *left}
    targets = sorted(target_brokers)
    home = _homes(known, targets)
    there = set(existing)
    elsewhere = []
    for source in sorted(set(sources) - set(known)):
        if source.broker not in home:
            home[source.broker] = _next_home(source.broker, home, targets)
        target = source._replace(broker=home[source.broker])
        if target in taken or (there and target not in there):
            elsewhere.append(source)
            continue
        taken.add(target)
        result[source] = target
    spare, last = _Spare(there - taken, targets), dict[str, int]()
    for queue in taken:
        last[queue.broker] = max(queue.queue_id, last.get(queue.broker, 0))
    for source in elsewhere:
        broker = home[source.broker]
        target = spare.take(broker) or source._replace(broker=broker)
        if target in taken:
            target = Queue(broker, 1 + last[broker])
        taken.add(target)
        last[target.broker] = max(target.queue_id, last.get(target.broker, 0))
        result[source] = target
    return result


class _Spare:
    """Queues that the target has and that nothing goes to yet."""

    def __init__(self, queues: Iterable[Queue], targets: Sequence[str]) -> None:
        self._last_first: dict[str, list[Queue]] = {broker: [] for broker in targets}
        for queue in sorted(queues, reverse=True):
            if queue.broker in self._last_first:
                self._last_first[queue.broker].append(queue)

    def take(self, broker: str) -> Queue | None:
        """The first one, on `broker` if it has any left."""
        for queues in (self._last_first[broker], *self._last_first.values()):
            if queues:
                return queues.pop()
        return None


def _homes(known: QueueMap, targets: Sequence[str]) -> dict[str, str]:
    """The target broker that each source broker's queues are mapped to, if it still exists."""
    return {source.broker: known[source].broker for source in sorted(known) if known[source].broker in targets}


def _next_home(source: str, home: Mapping[str, str], targets: Sequence[str]) -> str:
    """The broker of the same name, else the one that serves the fewest source brokers."""
    if source in targets:
        return source
    used = list(home.values())
    return min(targets, key=lambda target: (used.count(target), target))


def moved_to(
    known: QueueMap, lost: str, broker: str, *, existing: int, left: Iterable[Queue] = ()
) -> dict[Queue, Queue]:
    """A new target on `broker` for each source queue whose target is on the broker `lost`.

    Args:
        existing: how many queues the topic has on `broker`; only queues after those are taken, so that whatever is
            found in them was copied there.
        left: as in `extend`.
    """
    taken = [queue.queue_id for queue in (*known.values(), *left) if queue.broker == broker]
    first = max(existing, 1 + max(taken, default=-1))
    moving = sorted(source for source, target in known.items() if target.broker == lost)
    return {source: Queue(broker, first + i) for i, source in enumerate(moving)}


def needed_queues(queue_map: QueueMap) -> dict[str, int]:
    """The queue numbers that the topic needs on each target broker; none for queues that no topic has."""
    needed: dict[str, int] = {}
    for target in queue_map.values():
        if target.queue_id < MAX_QUEUES:
            needed[target.broker] = max(needed.get(target.broker, 0), target.queue_id + 1)
    return needed


def write_queues(queue_map: QueueMap, configs: Mapping[str, TopicConfig], broker: str) -> int:
    """The queue numbers that producers may use on a target broker: as the source has them, if it can be said.

    Args:
        configs: the topic on the source brokers.
    """
    needed = needed_queues(queue_map).get(broker, 0)
    used = {
        target.queue_id
        for source, target in queue_map.items()
        if target.broker == broker
        and source.broker in configs
        and source.queue_id < configs[source.broker].write_queues
    }
    return len(used) if used == set(range(len(used))) else needed
