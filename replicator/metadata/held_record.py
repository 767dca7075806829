"""What POP consumers hold, as the shared state has it: whoever fails over with the source dead goes by it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from replicator.metadata.offsets import CopiedQueue, GroupQueue
from replicator.metadata.pop_checkpoints import Held
from replicator.routing.queue_map import Queue

__all__ = ["HeldQueue", "held_queues", "record_of"]

#: Queues of groups that are in it at most, and messages of all together. A record goes to the group with each sync
#: that changes it, and takes some 60 KB at most. Of further queues it has no messages, or nothing.
_QUEUES: Final = 256
_MESSAGES: Final = 1000


class HeldQueue(NamedTuple):
    """What a group holds in a source queue, as in a `GroupQueue`; `held` is empty where the record has it not."""

    group: str
    topic: str
    source: Queue
    first: int
    messages: int
    delivered: int
    held: tuple[Held, ...]

    def place(self, queue: CopiedQueue, target: int | None) -> GroupQueue:
        """Its place, given the copy of its queue and its offset there."""
        return GroupQueue(
            self.group,
            self.topic,
            queue,
            self.first,
            target,
            in_flight=self.messages,
            acknowledged_after=max(0, self.delivered - self.first - self.messages),
            delivered=self.delivered if self.held else None,
            held=self.held,
        )


def record_of(places: Collection[GroupQueue], known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The record of what is held, where anything is.

    Args:
        known: the record before, from which places that are not among these stay.
    """
    seen = {(place.group, place.topic, str(place.queue.source)) for place in places}
    left = (each for each in known.get("queues", ()) if (each["group"], each["topic"], each["queue"]) not in seen)
    queues: list[dict[str, Any]] = list(islice(left, _QUEUES))
    room = _MESSAGES - sum(len(each["held"]) for each in queues)
    for place in places:
        if not place.in_flight or len(queues) == _QUEUES:
            continue
        held = place.held if len(place.held) <= room else ()
        room -= len(held)
        delivered = place.source + place.in_flight + place.acknowledged_after
        queues.append(
            {
                "group": place.group,
                "topic": place.topic,
                "queue": str(place.queue.source),
                "first": place.source,
                "messages": place.in_flight,
                "delivered": delivered if place.delivered is None else place.delivered,
                "held": [list(each) for each in held],
            }
        )
    return {"queues": queues}


def held_queues(record: Mapping[str, Any]) -> list[HeldQueue]:
    """What a record says; nothing where there is none."""
    return [
        HeldQueue(
            each["group"],
            each["topic"],
            Queue.parse(each["queue"]),
            each["first"],
            each["messages"],
            each["delivered"],
            tuple(Held(offset, popped) for offset, popped in each["held"]),
        )
        for each in record.get("queues", ())
    ]
