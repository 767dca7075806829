"""What is known of groups' offsets at the target when the source cannot be asked any more. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from replicator.client.offsets import OffsetTable
from replicator.routing.plan import TopicPlan

__all__ = ["synced_offsets"]


def synced_offsets(
    there: Mapping[str, OffsetTable],
    plans: Iterable[TopicPlan],
    *,
    synced: Collection[str],
    selects: Callable[[str], bool],
    at: float,
) -> dict[str, Any]:
    """As of when offsets are, and in how many queues each group has one.

    Args:
        there: the offsets at the target's brokers.
        plans: the topics that the route copies.
        synced: groups that were synced; none: groups are not.
        selects: whether the route syncs a group's offsets.
        at: when all of them were synced last; 0: that is not known.
    """
    queues = {
        (plan.target_topic, target.broker, target.queue_id) for plan in plans for target in plan.queue_map.values()
    }
    found = Counter[str]()
    for broker, table in there.items():
        for (group, topic), offsets in table.offsets.items():
            if selects(group) and (not synced or group in synced):
                found[group] += sum((topic, broker, queue_id) in queues for queue_id in offsets)
    groups = [{"group": group, "queues": count} for group, count in sorted(found.items()) if count]
    return {"at": at or None, "groups": groups}
