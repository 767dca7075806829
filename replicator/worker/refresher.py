"""What has changed in both clusters, looked at now and then, and what follows for the connectors."""

from __future__ import annotations

import asyncio
import time

from replicator.aio.clock import now
from replicator.client.discovery import Discovery
from replicator.errors import ReplicatorError
from replicator.group.control_log import ControlLog
from replicator.group.local_log import LocalLog
from replicator.group.member import Group
from replicator.group.mirror import Mirror
from replicator.group.no_log import NoLog
from replicator.observe.logging import get_logger
from replicator.observe.reminder import Reminder
from replicator.state.known_brokers import Side
from replicator.worker.agenda import Agenda
from replicator.worker.connectors import Routes
from replicator.worker.forgotten_brokers import ForgottenBrokers
from replicator.worker.task_runner import TaskRunner
from replicator.worker.unseen_sides import unseen

__all__ = ["Refresher"]

log = get_logger(__name__)


class Refresher:
    """Looks at `source` and `target`, and at the brokers that `control` and `mirror` are on."""

    def __init__(
        self,
        source: Discovery,
        target: Discovery,
        control: ControlLog | LocalLog | NoLog,
        mirror: Mirror | None,
        *,
        forgotten: ForgottenBrokers,
        group: Group,
        routes: Routes,
        runner: TaskRunner,
        agenda: Agenda,
    ) -> None:
        #: When both clusters were looked at last, in seconds since the epoch; 0: not since this was made.
        self.refreshed_at = 0.0
        #: Why a side could not be looked at the last time.
        self.problems: list[str] = []
        #: Why neither a name server nor a broker of the source can be reached; empty: one can.
        self.source_away = ""
        #: When one could, in seconds since the epoch.
        self.source_seen_at = time.time()
        self._begun_at = time.time()
        self._reminder = Reminder()
        self._sides: dict[Side, Discovery] = {"source": source, "target": target}
        #: What the connectors were planned by last; others look at the clusters, too, and see a change before us.
        self._planned = self._revisions()
        self._forgotten = forgotten
        self._control = control
        self._mirror = mirror
        self._group = group
        self._routes = routes
        self._runner = runner
        self._agenda = agenda

    def _revisions(self) -> dict[Side, int]:
        return {side: discovery.revision for side, discovery in self._sides.items()}

    @property
    def seen_at(self) -> float:
        """As `refreshed_at`; whoever makes this has just looked at both, too."""
        return self.refreshed_at or self._begun_at

    async def refresh(self) -> None:
        """Looks for new topics and queues, and for brokers and masters that have moved.

        A cluster or log that cannot be asked is logged, and no error: of clusters, `problems` says why.
        """
        refreshes = [self._refresh_side(side) for side in self._sides]
        logs = [each.refresh() for each in (self._control, self._mirror) if each is not None]
        ended = await asyncio.gather(*refreshes, *logs, return_exceptions=True)
        failures = [each for each in ended if isinstance(each, BaseException)]
        for failure in failures:  # one side's absence must not hide what happens on the other
            if not isinstance(failure, ReplicatorError | OSError):
                raise failure
        for reason in dict.fromkeys(map(str, failures)):
            if self._reminder.is_due(reason):
                log.warning("refresh failed", reason=reason)
            else:
                log.debug("refresh failed again", reason=reason)
        if not failures and self._reminder.over():
            log.info("both clusters are refreshed again")
        failed = {
            side: each
            for side, each in zip(self._sides, ended, strict=False)  # what ended after them are the logs
            if isinstance(each, BaseException)
        }
        self.problems = [unseen(side, error) for side, error in failed.items()]
        self.source_away = await self._sides["source"].absence(failed.get("source"))
        self.source_seen_at = self.source_seen_at if self.source_away else time.time()
        for route in self._routes:
            route.follow_clusters()
        if "source" in failed:  # none of its masters is known to be there: what was deleted would look as if away
            return
        self._plan()
        if not failed:
            self.refreshed_at = time.time()
        self._agenda.wake()

    def _plan(self) -> None:
        """Plans the connectors again if anything has changed, and starts queues that are new."""
        agenda = self._agenda
        revisions = self._revisions()
        changed = agenda.plan or revisions != self._planned
        log.debug("cluster metadata refreshed", changed=changed)
        if changed or self._routes.problems:
            self._routes.plan()
            self._planned = revisions
            agenda.plan = False
            agenda.make_ready = True
        if self._group.coordinator.holds_lease(now()):
            self._runner.start_new_queues()

    async def _refresh_side(self, side: Side) -> None:
        discovery = self._sides[side]
        topology = await discovery.refresh()
        self._agenda.plan |= self._forgotten.follow(side, discovery, topology)

    async def sample(self) -> None:
        """The lag of queues that are not being pulled now, and how far their brokers' clocks are ahead."""
        for state in self._routes.states:
            state.progress.skew = self._group.skews.get(state.source.broker, 0.0)
        for route in self._routes:
            await route.sample()
