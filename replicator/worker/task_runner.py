"""The tasks that run here: started after the group knows of it, ended before another worker may start them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from replicator.client.cluster import Cluster
from replicator.connector.interface import ConnectorLifecycle
from replicator.group.coordinator import Coordinator, Decision
from replicator.group.member import Group
from replicator.group.membership import MemberState
from replicator.observe.logging import get_logger
from replicator.routing.task_id import TaskId
from replicator.worker.checkpointer import Progress

__all__ = ["TaskRunner"]

log = get_logger(__name__)


class Runnable(Protocol):
    """The connectors whose tasks may run here."""

    def __iter__(self) -> Iterator[ConnectorLifecycle]: ...

    def get(self, name: str) -> ConnectorLifecycle | None: ...

    def why_unwanted(self, task: str) -> str:
        """Why a task of ours is not to run."""

    def share_rates(self) -> None:
        """Divides the rate limits again, since other tasks run now."""


class TaskRunner:
    """Carries out what `coordinator` decides about tasks.

    Args:
        target: all connections to it end when the lease is lost.
        work: what runs belongs to it.
        on_change: called after a change that may need new decisions; its argument says whether a task has stopped.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        routes: Runnable,
        group: Group,
        progress: Progress,
        *,
        target: Cluster,
        work: asyncio.TaskGroup,
        on_change: Callable[[bool], None],
    ) -> None:
        self._coordinator = coordinator
        self._routes = routes
        self._group = group
        self._progress = progress
        self._target = target
        self._work = work
        self._on_change = on_change
        self._stopping: dict[str, asyncio.Task[None]] = {}
        #: Why tasks of ours that do not run were stopped.
        self._ended: dict[str, str] = {}
        self._starting: asyncio.Task[None] | None = None
        self._fencing: asyncio.Task[None] | None = None
        self.lapses = 0

    def do(self, decision: Decision) -> None:
        """Begins to start, stop or fence tasks."""
        if decision.fence:
            log.warning(
                "lease lost: all tasks are stopped until the group can be reached again",
                tasks=len(self._coordinator.running),
            )
            self.fence()
            return
        for task in decision.stop:
            if task not in self._stopping:
                self._stopping[task] = self._work.create_task(self._stop(task))
        starting = {task for task in decision.start if task not in self._stopping}
        if starting and self._may_start():
            self._coordinator.running |= starting
            self._starting = self._work.create_task(self._start_or_give_back(starting))

    def _may_start(self) -> bool:
        """One start at a time: each saves all state, and tasks that arrive meanwhile start together.

        And a route that is rebuilt while one is running must not start its queues twice.
        """
        return _is_over(self._fencing) and _is_over(self._starting)

    def fence(self) -> asyncio.Task[None]:
        """Ends all tasks at once, also those that are about to start; what is in flight is dropped."""
        self._ended |= dict.fromkeys(self._coordinator.running, "the lease was lost")
        self._coordinator.running.clear()
        self.lapses += 1
        # Those that there are now: nothing keeps them from being rebuilt before the task begins.
        self._fencing = self._work.create_task(self._end_all([*self._routes], self._fencing))
        return self._fencing

    async def _end_all(self, routes: Collection[ConnectorLifecycle], earlier: asyncio.Task[None] | None) -> None:
        self._target.drop()
        await asyncio.gather(*(route.fence() for route in routes))
        if earlier is not None:  # a lease lost again: nothing starts before that one is over, too
            await asyncio.wait([earlier])
        self._on_change(False)

    async def _start_or_give_back(self, tasks: Collection[str]) -> None:
        if not await self._start(tasks, self._log_start):
            self._coordinator.running -= set(tasks)
        self._on_change(False)

    def _log_start(self, task: str) -> None:
        last, ended = self._coordinator.came_from.pop(task, None), self._ended.pop(task, "")
        after = {"after": ended} if last is None and ended else {}
        reason = "started again" if last is None else f"taken over from {last}" if last else "assigned"
        log.info("task started", task=task, worker=self._coordinator.me, reason=reason, **after)

    def _log_new_queues(self, task: str) -> None:
        log.info("task has new queues", task=task, worker=self._coordinator.me)

    async def _start(self, tasks: Collection[str], log_start: Callable[[str], None]) -> bool:
        """Begins what does not run of `tasks`, once the group knows that it has an owner.

        Args:
            log_start: called with each of them.

        Returns:
            whether it could be published to the group.
        """
        lapses = self.lapses
        begun = [
            (route, route.begin(task for task in tasks if TaskId.parse(task).connector == route.name))
            for route in self._routes
        ]
        if not await self._group.publish():
            return False
        await self._progress.save(force=True)
        if lapses == self.lapses:  # else the group has gone on without us meanwhile
            running = self._coordinator.running - self._stopping.keys()
            for route, what in begun:
                route.start(what, running, self._work)
            self._routes.share_rates()
            for task in sorted(running.intersection(tasks)):
                log_start(task)
        return True

    def start_new_queues(self) -> None:
        """Queues that a topic has got since its task began; what cannot be now is done the next time."""
        running = self._coordinator.running - self._stopping.keys()
        new = {task for route in self._routes for task in running if route.lacks(task)}
        if new and self._may_start():
            self._starting = self._work.create_task(self._start_new(new))

    async def _start_new(self, tasks: Collection[str]) -> None:
        await self._start(tasks, self._log_new_queues)
        self._on_change(False)

    async def _stop(self, task: str) -> None:
        """Drains a task and publishes its position before another worker may start it."""
        route, reason = self._routes.get(TaskId.parse(task).connector), self._why_stopped(task)
        if route is not None:
            await route.stop([task])
            if task in self._coordinator.owned:
                self._ended[task] = reason
            log.info("task stopped", task=task, worker=self._coordinator.me, reason=reason)
            await self._group.publish()
        self._coordinator.running.discard(task)
        del self._stopping[task]
        self._on_change(True)

    def _why_stopped(self, task: str) -> str:
        coordinator = self._coordinator
        if coordinator.stage is not MemberState.ONLINE:
            return "this worker is stopping"
        if task not in coordinator.owned:
            owner = coordinator.assignment.owners.get(task)
            return f"assigned to {owner}" if owner else "no longer a task of the group"
        if self._group.is_split:
            return "workers of the group are heard that sign with another secret"
        return self._routes.why_unwanted(task)


def _is_over(task: asyncio.Task[None] | None) -> bool:
    return task is None or task.done()
