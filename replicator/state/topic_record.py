"""What the record of a topic says about its queues, read once for all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from replicator.routing.queue_map import Queue

__all__ = ["TopicRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic of ten thousand queues is one record, so that it must not be searched for each of them.

    Attributes:
        queues: the queue map.
        late: source queues that came after the route had begun.
        fresh: source queues whose target was made for them, so that nobody had ever sent there.
        moved: source queues whose target broker was given up; `resend` or `skip` says what becomes of its copies.
        left: target queues that were given up.
    """

    queues: Mapping[Queue, Queue]
    late: frozenset[Queue]
    fresh: frozenset[Queue]
    moved: Mapping[Queue, str]
    left: frozenset[Queue]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Reads the value of a record that fits."""
        return cls(
            queues={Queue.parse(source): Queue.parse(target) for source, target in value["queues"].items()},
            late=frozenset(map(Queue.parse, value["late"])),
            fresh=frozenset(map(Queue.parse, value["fresh"])),
            moved={Queue.parse(source): policy for source, policy in value.get("moved", {}).items()},
            left=frozenset(map(Queue.parse, value.get("left", ()))),
        )
