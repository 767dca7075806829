"""What has changed in both clusters, looked at now and then, and what follows for the connectors."""

from __future__ import annotations

import time

from replicator.aio.clock import now
from replicator.client.discovery import Discovery
from replicator.errors import ReplicatorError
from replicator.group.control_log import ControlLog
from replicator.group.local_log import LocalLog
from replicator.group.member import Group
from replicator.observe.logging import get_logger
from replicator.worker.agenda import Agenda
from replicator.worker.connectors import Routes
from replicator.worker.task_runner import TaskRunner

__all__ = ["Refresher"]

log = get_logger(__name__)


class Refresher:
    """Looks at `source` and `target`, and at the brokers that `control` is on."""

    def __init__(
        self,
        source: Discovery,
        target: Discovery,
        control: ControlLog | LocalLog,
        *,
        group: Group,
        routes: Routes,
        runner: TaskRunner,
        agenda: Agenda,
    ) -> None:
        #: When both clusters were looked at last, in seconds since the epoch.
        self.refreshed_at = 0.0
        self._sides = (source, target)
        self._control = control
        self._group = group
        self._routes = routes
        self._runner = runner
        self._agenda = agenda

    async def refresh(self) -> None:
        """Looks for new topics and queues, and for brokers and masters that have moved."""
        agenda = self._agenda
        try:
            for side in self._sides:
                _, changed = await side.refresh()
                agenda.plan |= changed  # however the rest of the look ends
            await self._control.refresh()
        except (ReplicatorError, OSError) as error:
            log.warning("refresh failed", reason=str(error))
            return
        log.debug("cluster metadata refreshed", changed=agenda.plan)
        if agenda.plan or self._routes.problems:
            self._routes.plan()
            agenda.plan = False
            agenda.make_ready = True
        for route in self._routes:
            route.follow_masters()
        if self._group.coordinator.holds_lease(now()):
            self._runner.start_new_queues()
        self.refreshed_at = time.time()
        agenda.wake()

    async def sample(self) -> None:
        """The lag of queues that are not being pulled now, and how far their brokers' clocks are ahead."""
        for state in self._routes.states:
            state.progress.skew = self._group.skews.get(state.source.broker, 0.0)
        for route in self._routes:
            await route.sample()
