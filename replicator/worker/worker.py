"""A worker: carries out what its coordinator decides, on the routes that the group's connectors ask for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from replicator.aio.clock import now
from replicator.aio.schedule import Schedule
from replicator.aio.set_within import set_within
from replicator.client.cluster import Cluster
from replicator.client.nameservers import NoBrokers
from replicator.connector.context import ConnectorContext
from replicator.errors import StartupError, Unreachable
from replicator.group.control_log import ControlLog
from replicator.group.coordinator import Assignment, Coordinator, Decision
from replicator.group.known_group import clusters_record
from replicator.group.local_log import LocalLog
from replicator.group.member import Group
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.mirror import Mirror
from replicator.group.no_log import NoLog
from replicator.group.rebalances import Rebalances
from replicator.group.unowned_tasks import UnownedTasks
from replicator.observe.logging import get_logger
from replicator.routing.budget import MemoryBudget
from replicator.routing.options import Identity
from replicator.routing.state import QueueState
from replicator.settings import Settings
from replicator.state.connector_configs import Connectors, State
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.agenda import Agenda
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes
from replicator.worker.halted_queues import HaltedQueues
from replicator.worker.heartbeats import Heartbeats
from replicator.worker.leader import Leader, log_assignment
from replicator.worker.refresher import Refresher
from replicator.worker.releases import Releases
from replicator.worker.standby import Standby
from replicator.worker.target_probe import TargetProbe
from replicator.worker.task_runner import TaskRunner

__all__ = ["Worker"]

#: Seconds between two looks whether a worker that joins has to give way.
_JOIN_POLL_INTERVAL: Final = 0.5
#: Seconds between two looks for releases that go on here.
_RELEASES: Final = 2.0
#: Seconds between two looks for the first broker that takes messages.
_BROKERS: Final = 1.0
#: How often a queue is looked at before it counts as stalled.
_WATCHED: Final = 20

log = get_logger(__name__)


@dataclass(kw_only=True, eq=False)
class Worker:
    """One worker of a group; `build` makes it of its parts.

    `rest_address` is where others find its REST API, `clusters` are all clients of its own, `control` is the log
    that the group goes by, `mirror` what is left of it at the target when the source is gone, and whatever runs
    belongs to `work`. A worker with a `standby` has not found its source, and waits for it.
    """

    settings: Settings
    rest_address: str
    clusters: Collection[Cluster]
    context: ConnectorContext
    connectors: Connectors
    routes: Routes
    halted: HaltedQueues
    group: Group
    control: ControlLog | LocalLog | NoLog
    mirror: Mirror | None
    standby: Standby | None
    progress: Progress
    heartbeats: Heartbeats
    probe: TargetProbe
    runner: TaskRunner
    leader: Leader
    refresher: Refresher
    releases: Releases
    agenda: Agenda
    work: asyncio.TaskGroup
    rebalances: Rebalances = field(default_factory=Rebalances)
    unowned: UnownedTasks = field(default_factory=UnownedTasks)
    #: Connectors that are failed over here now.
    switching: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.coordinator.me

    @property
    def coordinator(self) -> Coordinator:
        return self.group.coordinator

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def budget(self) -> MemoryBudget:
        return self.context.budget

    @property
    def identity(self) -> Identity:
        return self.context.identity

    @property
    def ignored_messages(self) -> dict[str, int]:
        """Messages on the system topics, of either cluster, that this worker does not believe, by reason."""
        found = Counter(self.group.inbox.ignored)
        if self.mirror is not None and self.mirror.writes:  # or else it reads what the group reads
            found.update(self.mirror.inbox.ignored)
        return dict(found)

    @property
    def refreshed_at(self) -> float:
        """When both clusters were looked at last, in seconds since the epoch."""
        return self.refresher.refreshed_at

    @property
    def fencings(self) -> int:
        """How often this worker has lost its lease while it had tasks."""
        return self.runner.lapses

    @property
    def queues(self) -> list[QueueState]:
        """The queues that this worker reports: those it copies, and the halted ones that it looks at."""
        return [*self.routes.states, *self.halted.states]

    def may_send(self) -> bool:
        """Whether this worker holds its lease."""
        return self.context.may_send()

    async def close(self) -> None:
        """Ends all connections."""
        for cluster in self.clusters:
            await cluster.close()

    @property
    def others(self) -> Mapping[str, Heartbeat]:
        """The newest heartbeat of every other live worker of the group, as far as this one can know, by its id."""
        if self.standby is not None and self.mirror is not None:
            return self.mirror.membership.others
        return self.coordinator.membership.others

    @property
    def seen_at_target(self) -> Mapping[str, Heartbeat]:
        """The other workers that reach the target now, whether the source does or not; nobody, without a mirror."""
        return {} if self.mirror is None else self.mirror.membership.others

    @property
    def sees_others(self) -> bool:
        """Whether this worker hears at the target what others say there, and they hear it."""
        return self.mirror is not None and self.mirror.heard

    async def run(self, stop: asyncio.Event) -> bool:
        """Takes part in the group until `stop` is set, then drains and leaves.

        Returns:
            whether it has only stood by, and its source is there now: another one is to be built.

        Raises:
            StartupError: the system topics cannot be had, or another worker has our id.
        """
        if not await self._open_control(stop):
            return False
        found = False
        async with self.work:
            opening = self._open_mirror()
            inspecting = self.work.create_task(self.context.inspector.run(), name="inspector")
            watching = self.work.create_task(
                self.context.watch.run(self.context.target.cluster), name="target watch"
            )
            auditing = self.work.create_task(self.context.auditor.run(), name="auditor")
            schedule = self._schedule()
            schedule.start()
            if self.standby is not None:
                found = await self.standby.run(stop, self._follow_mirror)
            else:
                await self._join(stop)
                if stop.is_set() and self._conflict is None and not self.group.may_have_namesake:
                    await self._say_farewell()
            if self.standby is None and not stop.is_set():
                self._bring()
                self.reconcile()
                self.work.create_task(self._publish())  # the mirror has the group from its first moment on
                await self._take_part(stop)
                await self._leave_mirror()
            await schedule.end()
            await self.releases.close()
            for each in (inspecting, watching, auditing, opening):
                each.cancel()
        await self.control.close()
        if self.mirror is not None:
            await self.mirror.close()
        await self.progress.save(force=True)
        if self._conflict is not None:
            raise self._conflict
        return found

    async def _open_control(self, stop: asyncio.Event) -> bool:
        """Waits for a broker that takes messages; whether there was one before `stop`."""
        side = self.context.target if self.settings.coordination == "target" else self.context.source
        known = ""
        while not stop.is_set():
            try:
                await self.control.open(side.topics)
            except NoBrokers as error:
                if error.message != known:
                    known = error.message
                    log.warning("waiting for a broker that takes messages", reason=known)
                await set_within(stop, _BROKERS)
            else:
                return True
        return False

    @property
    def _conflict(self) -> StartupError | None:
        return self.group.conflict or (self.mirror.conflict if self.mirror is not None else None)

    def _open_mirror(self) -> asyncio.Task[None]:
        async def opened() -> None:
            if self.mirror is not None:
                await self.mirror.open(lambda: self.context.target.topics)
                await self.heartbeats.observe()
                await self.mirror.read(self.context.target.topics)

        return self.work.create_task(opened(), name="mirror")

    async def _leave_mirror(self) -> None:
        """What was published last, and that this worker has left."""
        if self.mirror is not None:
            await self.mirror.flush()
            await self.heartbeats.observe(MemberState.LEFT)

    def _follow_mirror(self) -> None:
        """Routes and their queue maps as the mirror has them, while the source is away."""
        self.reconcile()
        self.routes.plan()

    def _bring(self) -> None:
        """What this worker was started with becomes the group's, and so does which clusters it was found on."""
        state, identity = self.store.state, self.identity
        known = state.get(Kind.CLUSTERS, "")
        if (clusters := clusters_record(known, self.settings, self.group.name, identity)) != known:
            self.store.put(Kind.CLUSTERS, "", clusters)
        settings = self.settings
        self.connectors.bring(settings.connector, settings.route, State(settings.initial_state.upper()))

    def _schedule(self) -> Schedule:
        settings, schedule = self.settings, Schedule()
        schedule.every(settings.state_flush_interval, self.progress.save, name="state flush")
        schedule.every(settings.heartbeat_interval, self.heartbeats.observe, name="heartbeat at the target")
        schedule.every(settings.heartbeat_interval, self.probe.probe, name="target probe")
        schedule.every(_RELEASES, self.releases.resume, name="releases of parked messages")
        if self.standby is not None:
            self.standby.schedule(
                schedule,
                flush=settings.state_publish_interval,
                refresh=settings.metadata_refresh_interval,
                republish=settings.state_republish_interval,
            )
            return schedule
        schedule.every(settings.heartbeat_interval, self.heartbeats.beat, name="heartbeat to the group")
        schedule.every(settings.metadata_refresh_interval, self.refresher.refresh, name="metadata of both clusters")
        schedule.every(settings.metadata_refresh_interval, self.refresher.sample, name="lag at the source")
        schedule.every(
            settings.metadata_refresh_interval, self.halted.refresh, name="lag of halted queues at the source"
        )
        schedule.every(settings.heartbeat_interval, self.halted.follow, name="what was halted just now")
        schedule.every(settings.state_publish_interval, self._publish, name="state publication")
        schedule.every(settings.state_republish_interval, self._publish_all, name="publication of all state")
        schedule.every(max(1.0, settings.stall_timeout / _WATCHED), self._watch, name="watchdog")
        return schedule

    async def _publish(self) -> None:
        await self.progress.publish()
        if self.mirror is not None:
            await self.mirror.flush()

    async def _publish_all(self) -> None:
        """All that is known: the leader does it, or without a group the least of those that reach the target."""
        await self.leader.publish_all()
        if self.mirror is not None and not self.may_send() and self.mirror.is_first:
            await self.mirror.write_all()

    async def _watch(self) -> None:
        """Restarts queues that failed or stand still."""
        for route in self.routes:
            route.watch(time.monotonic(), self.work)

    async def _say_farewell(self) -> None:
        """The group has heard of us and may wait for us, though we have not taken part."""
        self.coordinator.stage = MemberState.LEFT
        await self.heartbeats.beat()
        await self._leave_mirror()

    async def _join(self, stop: asyncio.Event) -> None:
        await self.heartbeats.beat()
        stopped = asyncio.ensure_future(stop.wait())
        joined = asyncio.ensure_future(self.group.joined.wait())
        while not (stopped.done() or joined.done() or self._conflict is not None):
            await asyncio.wait([stopped, joined], timeout=_JOIN_POLL_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        joined.cancel()
        self.group.recall()
        # Or what we last said before a crash would count twice.
        self.work.create_task(self.progress.publish(force=True))

    async def _take_part(self, stop: asyncio.Event) -> None:
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(lambda _: self.agenda.wake())
        while self.coordinator.stage is not MemberState.LEFT:
            self.agenda.begin_turn()
            if self._conflict is not None:
                await self.runner.fence()
                await self.leader.end()
                return
            if stop.is_set() and self.coordinator.stage is MemberState.ONLINE:
                self.coordinator.stage = MemberState.LEAVING
            await self._turn()
            await self.agenda.next_turn()

    def _wanted(self) -> Callable[[str], bool]:
        """Whether a task of ours is to run now: none before the target has said what was decided there, nor while
        others with another secret may copy the same.
        """
        if (self.mirror is not None and not self.mirror.caught_up) or self.group.is_split:
            return lambda _: False
        return self.routes.wanted()

    async def _turn(self) -> None:
        """Follows what has happened since the last one."""
        agenda, coordinator = self.agenda, self.coordinator
        if agenda.publish_all:
            agenda.publish_all = False
            self.work.create_task(self.group.publish_all())
        if agenda.reconcile:
            self.reconcile()
        wanted, tasks, before = self._wanted(), self.routes.tasks(), coordinator.assignment
        decision = coordinator.step(now(), tasks, wanted=wanted)
        self._do(decision, before)
        if decision.fence:
            await self.leader.end()
        stable = coordinator.stable(wanted)
        self.rebalances.update(coordinator.assignment.generation, now(), stable=stable)
        self.unowned.update(coordinator, tasks, now())
        self.leader.lead()
        if coordinator.stage is MemberState.LEAVING and not coordinator.running:
            await self.leader.end()
            await self.progress.publish(force=True)
            coordinator.stage = MemberState.LEFT
        if self.group.unsaid:
            await self.heartbeats.beat()

    def _do(self, decision: Decision, before: Assignment) -> None:
        """Carries out `decision`; `before` is the assignment that it may replace."""
        for worker in decision.lost:
            log.warning("worker left", worker=worker, reason="nothing was heard from it for the session timeout")
        for worker in decision.unheard:
            log.warning(
                "worker keeps its tasks though nothing is heard from it at the source",
                worker=worker,
                reason="it holds its lease, as it says at the target, or nothing can be heard there",
            )
        if decision.publish is not None and not decision.fence:
            self.group.assign(decision.publish)
            if decision.publish.generation != before.generation:  # else it is the same once more
                log_assignment(decision.publish, before)
            self.work.create_task(self.leader.publish_assignment())
        self.runner.do(decision)

    def reconcile(self) -> None:
        """Follows the connectors as they are now."""
        self.agenda.reconcile = False
        self.agenda.make_ready |= self.routes.reconcile()
        self.agenda.wake()

    async def changed(self) -> None:
        """Connectors were changed here: applies the changes, and publishes them to the group.

        Raises:
            Unreachable: the change could not be published to the group; it is retried.
        """
        self.reconcile()
        published = await self.group.publish()
        if self.mirror is not None and not published:
            await self.mirror.flush()  # it is all that others can hear
        if not published:
            raise Unreachable(f"the {self.settings.coordination}", "the change could not be published to the group")
