"""Which tasks of connectors run at any worker, as far as the heartbeats say so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from replicator.routing.task_id import TaskId
from replicator.worker.worker import Worker

__all__ = ["known_running", "running", "stopped"]

#: Seconds between two looks whether tasks have stopped, and that they may take.
_POLL_INTERVAL: Final = 0.1
_SECONDS: Final = 60.0


def running(worker: Worker, connectors: Collection[str], *, source_dead: bool = False) -> bool:
    """Whether a task of `connectors` runs, or may be starting: heartbeats name what runs, somewhat late.

    With the source dead, as far as the target's log says so.
    """
    may_start = not source_dead and not worker.coordinator.adopted
    return may_start or known_running(worker, connectors, source_dead=source_dead)


def known_running(worker: Worker, connectors: Collection[str], *, source_dead: bool = False) -> bool:
    """Whether a worker says that it runs a task of `connectors`, or has one assigned; a rebalance alone is none."""
    coordinator = worker.coordinator
    tasks = {*coordinator.running}
    others = worker.seen_at_target if source_dead else coordinator.membership.others
    for other in others.values():
        tasks.update(other.tasks, other.releasing)
    if not source_dead:  # who has not heard yet that they have no owner may start them
        tasks.update(coordinator.assignment.owners)
    return any(TaskId.parse(task).connector in connectors for task in tasks)


async def stopped(worker: Worker, connectors: Collection[str], *, source_dead: bool = False) -> bool:
    """Waits until no task of `connectors` runs; False if one still does after a minute."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SECONDS
    while loop.time() < deadline:
        if not running(worker, connectors, source_dead=source_dead):
            return True
        await asyncio.sleep(_POLL_INTERVAL)
    return False
