"""Progress of this worker's tasks: published to the group, and saved to disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from replicator.aio.clock import now
from replicator.aio.slices import in_slices
from replicator.connector.status import QueueSums
from replicator.group.member import Group
from replicator.observe.logging import get_logger
from replicator.observe.printable import printable
from replicator.observe.recent_events import recent_events
from replicator.observe.reminder import Reminder
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.connectors import Routes
from replicator.worker.halted_queues import HaltedQueues
from replicator.worker.state_cleaner import Cleaner

__all__ = ["Progress"]

#: The pause after each write is at least this many times as long as the write took; likewise between publications
#: as adding up took, to which twice as much comes for the rest.
_SAVE_PAUSE: Final = 20
_STATUS_PAUSE: Final = 200

log = get_logger(__name__)


class Progress:
    """Publishes and saves the progress of `routes`, and whatever else was changed in `store`."""

    def __init__(self, store: Store, group: Group, routes: Routes, halted: HaltedQueues, cleaner: Cleaner) -> None:
        self.saved_at = 0.0
        self._store = store
        self._group = group
        self._routes = routes
        self._halted = halted
        self._cleaner = cleaner
        self._began = recent_events.last
        self._saving_cost = 0.0
        self._saved = 0.0
        self._status_cost = 0.0
        self._status_at = 0.0
        self._saving = asyncio.Lock()
        self._reminder = Reminder()

    async def publish(self, *, force: bool = False) -> None:
        """Publishes what was changed here, and our tasks' status.

        The status is published less often if it takes long to add up, unless `force` is set.
        """
        if force or time.monotonic() - self._status_at >= _STATUS_PAUSE * self._status_cost:
            await self._put_status()
        self._cleaner.clean(now())
        await self._group.publish()

    async def _put_status(self) -> None:
        """A slice at a time: the time that all of it takes would be seen in the latency of messages."""
        await self._routes.keep(ended=False)
        sums, cost = QueueSums(), 0.0
        async for part in in_slices([*self._routes.states, *self._halted.states]):
            began = time.thread_time()
            sums.add(part)
            cost += time.thread_time() - began
        me = self._group.coordinator.me
        before = self._store.state.get(Kind.STATUS, me)
        topics = sums.topics()
        status = {
            "topics": [*topics, *self._halted.still_to_tell((before or {}).get("topics", ()), topics)],
            "problems": _printable(self._routes.problems),
            "connector_problems": {
                name: _printable(problems) for name, problems in self._routes.connector_problems.items()
            },
            "queues": sums.worst(),
            "events": recent_events.noticed(self._began),
            "rates": self._routes.rate_uses(),
        }
        if status != before:
            self._store.put(Kind.STATUS, me, status)
        if status["rates"]:  # all tasks of the group are counted for it: only where there is something to divide
            self._routes.share_rates()
        self._status_cost = cost
        self._status_at = time.monotonic()

    async def save(self, *, force: bool = False) -> None:
        """Writes what has changed; where that takes long it is done less often, unless `force` is set."""
        if not force and time.monotonic() - self._saved < _SAVE_PAUSE * self._saving_cost:
            return
        # What is written in a thread goes on when this is cut off at the end: then it keeps its turn, and whoever
        # saves next waits for it.
        await asyncio.shield(asyncio.create_task(self._write(), name="state save"))

    async def _write(self) -> None:
        async with self._saving:
            started = time.monotonic()
            await self._routes.keep(ended=True)
            try:
                await asyncio.to_thread(self._store.write, self._store.snapshot())
            except OSError as error:
                if self._reminder.is_due(error.strerror or str(error)):  # the reason names one file or another
                    log.error(
                        "state cannot be saved",
                        path=str(self._store.directory),
                        reason=str(error),
                        hint="it must belong to this worker's user, and have room: ls -ld, df -h",
                    )
                return
            if self._reminder.over():
                log.info("state is saved again", path=str(self._store.directory))
            self.saved_at = time.time()
            self._saved = time.monotonic()
            self._saving_cost = self._saved - started


def _printable(problems: Mapping[str, str]) -> dict[str, str]:
    """As others read it; they would leave out a status that has anything else in it."""
    return {topic: printable(reason) for topic, reason in problems.items()}
