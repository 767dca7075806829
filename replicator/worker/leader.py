"""What the leader, or its substitute, does for the whole group."""

from __future__ import annotations

import asyncio

from replicator.group.coordinator import Coordinator
from replicator.group.member import Group
from replicator.state.record import Kind
from replicator.worker.agenda import Agenda
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes

__all__ = ["Leader"]


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

    @property
    def _coordinator(self) -> Coordinator:
        return self._group.coordinator

    def lead(self) -> None:
        """Makes the target ready for all, once everybody has adopted our assignment."""
        coordinator, busy = self._coordinator, self._making_ready is not None and not self._making_ready.done()
        leading = coordinator.leads() and coordinator.assignment.generation.leader == coordinator.me
        if self._agenda.make_ready and leading and coordinator.agreed and not busy:
            self._agenda.make_ready = False
            self._making_ready = self._work.create_task(self._make_ready())

    async def _make_ready(self) -> None:
        done = await self._routes.make_ready()
        if not done:  # the next look at the clusters tries again; what it has found meanwhile stays noted
            self._agenda.plan = True
        self._agenda.wake()  # tasks of ours start now, and what they publish first has the maps
        await self._progress.save(force=True)
        await self._progress.publish()

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
