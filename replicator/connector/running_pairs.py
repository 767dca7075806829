"""The pairs of a route that run here, each in an asyncio task of its own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator

from replicator.aio.slices import in_slices
from replicator.connector.interface import Pair
from replicator.observe.logging import get_logger
from replicator.routing.message_queue import MessageQueue
from replicator.routing.state import Phase, QueueState
from replicator.routing.task_id import TaskId

__all__ = ["RunningPairs"]

log = get_logger(__name__)


class RunningPairs:
    """None at first.

    Args:
        connector: the route's name.
        task_of: the task that copies a queue.
        ready: awaited before a queue's pair runs.
        on_end: gets the state of each pair that runs no more.
        on_late: called where pairs did not drain in time, before they have ended.
    """

    def __init__(
        self,
        connector: str,
        *,
        task_of: Callable[[MessageQueue], str],
        ready: Callable[[MessageQueue], Awaitable[None]],
        on_end: Callable[[QueueState], None],
        on_late: Callable[[], None],
    ) -> None:
        self._connector = connector
        self._task_of = task_of
        self._ready = ready
        self._on_end = on_end
        self._on_late = on_late
        self._pairs: dict[MessageQueue, Pair] = {}
        self._queues: defaultdict[str, set[MessageQueue]] = defaultdict(set)
        self._runs: dict[MessageQueue, asyncio.Task[None]] = {}
        self._ending: set[MessageQueue] = set()
        #: Pairs that were cut off before they had drained.
        self.cut = 0

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[tuple[MessageQueue, Pair]]:
        """The pairs of now by their queues; they may be ended and replaced meanwhile."""
        return iter([*self._pairs.items()])

    @property
    def states(self) -> list[QueueState]:
        return [pair.state for pair in self._pairs.values()]

    async def in_turn(self) -> AsyncIterator[list[QueueState]]:
        """As `states`, some at a time; others get their turn meanwhile. What has ended by then is left out."""
        async for part in in_slices(self):
            yield [pair.state for queue, pair in part if self._pairs.get(queue) is pair]

    def of(self, tasks: Collection[str]) -> list[MessageQueue]:
        """The queues of `tasks` that run."""
        return [queue for task in tasks for queue in self._queues.get(task, ())]

    def phases(self) -> dict[str, set[Phase]]:
        """The tasks that run, each with the phases of its queues."""
        return {task: {self._pairs[queue].state.phase for queue in queues} for task, queues in self._queues.items()}

    def runs(self, queue: MessageQueue) -> bool:
        """Whether its pair waits or runs: false when that has failed."""
        return not self._runs[queue].done()

    def is_ending(self, queue: MessageQueue) -> bool:
        """Whether it drains, or is being cut off."""
        return queue in self._ending

    def start(self, queue: MessageQueue, pair: Pair, group: asyncio.TaskGroup) -> None:
        """Runs `pair` for a queue that has none."""
        self._pairs[queue] = pair
        self._queues[self._task_of(queue)].add(queue)
        name = str(TaskId(self._connector, queue.topic, queue.queue))
        self._runs[queue] = group.create_task(self._run(queue, pair), name=name)

    def restart(self, queue: MessageQueue, pair: Pair, group: asyncio.TaskGroup) -> None:
        """Runs `pair` in the place of the queue's own, once that has ended."""
        before = self._runs[queue]
        before.cancel()
        self._pairs[queue] = pair
        self._runs[queue] = group.create_task(self._run_after(before, queue, pair), name=before.get_name())

    async def _run(self, queue: MessageQueue, pair: Pair) -> None:
        """A bug in one queue's tasks ends that queue, not the worker."""
        try:
            await self._ready(queue)
            await pair.run()
        except Exception as error:
            pair.state.set_phase(Phase.FAILED, f"{type(error).__name__}: {error}")
            log.exception("task failed", connector=self._connector, queue=str(queue))

    async def _run_after(self, before: asyncio.Task[None], queue: MessageQueue, pair: Pair) -> None:
        await asyncio.wait([before])
        await self._run(queue, pair)

    async def end(self, queues: Collection[MessageQueue], seconds: float) -> list[QueueState]:
        """Drains for at most `seconds`, then cuts off; the states of the queues as they ended."""
        ending = {queue: (self._pairs[queue], self._runs[queue]) for queue in queues}
        self._ending |= ending.keys()
        for pair, _ in ending.values():
            pair.drain()
        if ending:
            _, late = await asyncio.wait([run for _, run in ending.values()], timeout=seconds)
            for run in late:
                run.cancel()
            self.cut += len(late)
            if late:
                log.warning(
                    "not all messages were drained in time; the next owner copies the rest", queues=len(late)
                )
                self._on_late()
                await asyncio.wait(late)
        self._ending -= ending.keys()
        for queue, (pair, _) in ending.items():
            if self._pairs.get(queue) is pair:  # it was not ended meanwhile
                self._forget(queue)
        return [pair.state for pair, _ in ending.values()]

    async def cancel(self) -> None:
        """Ends all of them at once, whatever is in flight."""
        self.cut += len(self._ending & self._runs.keys())  # their drain finds them ended, as if all were sent
        runs = list(self._runs.values())
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait(runs)
        await self.end([*self._pairs], 0.0)

    def abandon(self, queue: MessageQueue) -> None:
        """Ends a queue's pair without waiting for it."""
        self._pairs[queue].drain()
        self._runs[queue].cancel()
        self._forget(queue)

    def _forget(self, queue: MessageQueue) -> None:
        self._on_end(self._pairs.pop(queue).state)
        del self._runs[queue]
        task = self._task_of(queue)
        self._queues[task].discard(queue)
        if not self._queues[task]:
            del self._queues[task]
