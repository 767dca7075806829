"""How the workers of a group divide the rate limits of a connector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from replicator.routing.task_id import TaskId

__all__ = ["rate_shares"]


def rate_shares(owners: Mapping[str, str], running: Collection[str]) -> dict[str, float]:
    """By connector, the part of its limits for a worker that runs the tasks `running`: that of its tasks.

    What another worker is to take over counts here until it has stopped, since it is drained within these limits.

    Args:
        owners: of all tasks of the group, as assigned.
    """
    total = Counter(TaskId.parse(task).connector for task in owners.keys() | set(running))
    ours = Counter(TaskId.parse(task).connector for task in running)
    return {connector: ours[connector] / count for connector, count in total.items()}
