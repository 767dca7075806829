"""Where each consumer group stands in each topic, summed up over queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from replicator.aio.slices import in_slices
from replicator.metadata.offsets import GroupQueue, standing

__all__ = ["group_standings"]

_COUNTED: Final = (
    *("redelivered", "missed", "without_offset", "not_copied", "before_start"),
    *("in_flight", "to_retry_topic", "acknowledged_after"),
)


async def group_standings(places: Iterable[GroupQueue]) -> list[dict[str, Any]]:
    """Per group and topic what would be redelivered and missed, summed up over queues."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    async for part in in_slices(places):
        for place in part:
            none = {"group": place.group, "topic": place.topic, **dict.fromkeys(_COUNTED, 0)}
            lists: dict[str, Any] = {"stopped_by": [], "held_back_by": []}
            _add(found.setdefault((place.group, place.topic), none | lists), place)
    return [found[key] for key in sorted(found)]


def _add(total: dict[str, Any], place: GroupQueue) -> None:
    at_target = standing(place)
    if at_target.foreign is not None:
        where = f"offset {at_target.foreign} of {place.queue.target}"
        total["stopped_by"].append(f"it has not read a foreign message at {where}, sent by a producer there")
    if place.held_back_by and place.held_back_by not in total["held_back_by"]:
        total["held_back_by"].append(place.held_back_by)
    for name in _COUNTED:
        total[name] += getattr(at_target, name)
