"""Tasks that no live worker owns, and since when, as one worker sees them. Pure: it is given the time.

A new topic's task is one until the next assignment, and so are those of a worker that has died. A leader that makes
no assignment, or leaves tasks out, is in trouble, or no worker of the group at all.
"""

from __future__ import annotations

from collections.abc import Collection

from replicator.group.coordinator import Coordinator

__all__ = ["UnownedTasks"]


class UnownedTasks:
    """`update` is called at each turn of the group."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def update(self, coordinator: Coordinator, tasks: Collection[str], now: float) -> None:
        """All tasks of the group are `tasks`; without a lease it cannot be known who lives and who has them."""
        found = coordinator.unowned(tasks) if coordinator.holds_lease(now) else ()
        self._since = {task: self._since.get(task, now) for task in found}

    def older(self, seconds: float, now: float) -> dict[str, float]:
        """Those that have been so for `seconds` or longer, each with the seconds."""
        ages = {task: now - since for task, since in self._since.items()}
        return {task: age for task, age in ages.items() if age >= seconds}
