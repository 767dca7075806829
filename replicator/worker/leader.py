"""What the leader, or its substitute, does for the whole group."""

from __future__ import annotations

import asyncio

from replicator.aio.clock import now
from replicator.group.coordinator import Assignment, Coordinator
from replicator.group.member import Group
from replicator.observe.excerpt import excerpt
from replicator.observe.logging import get_logger
from replicator.state.record import Kind
from replicator.worker.agenda import Agenda
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes

__all__ = ["Leader", "log_assignment"]

log = get_logger(__name__)


class Leader:
    """The leader's part of this worker; it does nothing while another one leads.

    Args:
        work: what takes longer belongs to it.
    """

    def __init__(
        self, group: Group, routes: Routes, progress: Progress, agenda: Agenda, *, work: asyncio.TaskGroup
    ) -> None:
        self._group = group
        self._routes = routes
        self._progress = progress
        self._agenda = agenda
        self._work = work
        self._making_ready: asyncio.Task[None] | None = None
        #: The part of it that may be cut off: what is saved after it must not be, or older state might be kept.
        self._preparing: asyncio.Task[bool] | None = None

    @property
    def _coordinator(self) -> Coordinator:
        return self._group.coordinator

    def lead(self) -> None:
        """Makes the target ready for all, once everybody has adopted our assignment."""
        coordinator, busy = self._coordinator, self._making_ready is not None and not self._making_ready.done()
        leading = coordinator.leads() and coordinator.assignment.generation.leader == coordinator.me
        leading = leading and coordinator.holds_lease(now())  # or another worker may lead by now
        if self._agenda.make_ready and leading and coordinator.agreed and not busy:
            self._agenda.make_ready = False
            self._preparing = self._work.create_task(self._routes.make_ready())
            self._making_ready = self._work.create_task(self._make_ready(self._preparing))

    async def _make_ready(self, preparing: asyncio.Task[bool]) -> None:
        await asyncio.wait([preparing])
        if preparing.cancelled():
            self._agenda.make_ready = True
            return
        if not preparing.result():  # the next look at the clusters tries again; what it has found stays noted
            self._agenda.plan = True
        self._agenda.wake()  # tasks of ours start now, and what they publish first has the maps
        await self._progress.save(force=True)
        await self._progress.publish()

    async def end(self) -> None:
        """Makes nothing at the target any more: this worker leaves, or has lost its lease; another one may lead."""
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait([self._preparing])

    async def publish_assignment(self) -> None:
        """Publishes the assignment that was computed here."""
        record = self._group.store.state.record(Kind.ASSIGNMENT, "")
        if record is not None:
            await self._group.publish([record])
        await self._group.publish_all()  # new workers need not read back further than this

    async def publish_all(self) -> None:
        """Publishes all that the group knows, well before brokers delete it.

        The leader does so, or the worker with the lowest id if there is no leader.
        """
        if self._coordinator.speaks_for_all():
            await self._group.publish_all()


def log_assignment(assignment: Assignment, before: Assignment) -> None:
    """Says which tasks move; `before` is what it replaces."""
    owners, old = assignment.owners, before.owners
    moved = [
        f"{task}: {old.get(task, 'nobody')} -> {owners.get(task, 'nobody')}"
        for task in sorted({*old, *owners})
        if old.get(task) != owners.get(task)
    ]
    log.info(
        "tasks assigned",
        generation=assignment.generation.number,
        workers=sorted(assignment.members),
        tasks=len(owners),
        moved=len(moved),
        moves=excerpt(moved),
    )
