"""A worker: carries out what its coordinator decides, on the routes that the group's connectors ask for.

Nothing is written anywhere before `prepare` has found that it can run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Literal

from replicator import __version__
from replicator.aio.clock import now
from replicator.aio.schedule import Schedule
from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.connector.context import ConnectorContext, look
from replicator.connector.identity import worker_id
from replicator.connector.route import Route
from replicator.connector.spark_jobs import Bulk
from replicator.connector.status import task_states
from replicator.errors import ReplicatorError, Unreachable
from replicator.group.assignment import load_strategy
from replicator.group.control_log import ControlLog
from replicator.group.coordinator import Coordinator, Decision
from replicator.group.job_claim import copies_ours
from replicator.group.job_lease import JOBS
from replicator.group.local_log import LocalLog
from replicator.group.member import Group, Topics
from replicator.group.membership import MemberState
from replicator.group.rebalances import Rebalances
from replicator.observe.audit import Audit
from replicator.observe.logging import get_logger
from replicator.routing.budget import MemoryBudget
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state.connector_configs import Connectors
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes
from replicator.worker.state_cleaner import Cleaner
from replicator.worker.target_probe import TargetProbe
from replicator.worker.task_runner import TaskRunner

__all__ = ["Worker"]

#: Seconds between two looks at the group when nothing happens.
_STEP: Final = 0.25
#: How often a queue is looked at before it counts as stalled.
_WATCHED: Final = 20
#: Queues that recover at once.
_RECOVERING: Final = 64
#: Of the session timeout, how long a heartbeat that came back lets us send.
_LEASE: Final = 0.7
#: Seconds of the heartbeats' past, in session timeouts, that a new worker looks at.
_PAST: Final = 2.0

log = get_logger(__name__)

#: Makes the client of one side; what it is given is asked before the rest of a request is written.
Connect = Callable[[Literal["source", "target"], Callable[[], bool] | None], Cluster]


class Worker:
    """One worker of a group.

    Raises:
        ConfigError: the assignment strategy cannot be had.
    """

    def __init__(self, settings: Settings, *, connect: Connect, store: Store) -> None:
        self.settings = settings
        self.store = store
        self.connectors = Connectors(store)
        self.budget = MemoryBudget(settings.memory_bytes)
        self.id = store.state.worker = worker_id(settings, store.identity())
        self.rest_address = ""
        self.rebalances = Rebalances()
        self.refreshed_at = 0.0
        # Heartbeats must not queue behind messages, so they have connections of their own.
        self._control = connect("source", None)
        source = connect("source", None)
        target = connect("target", None if settings.standalone else self.may_send)
        self._source = Discovery(source, masters_only=False)
        self._target = Discovery(target, masters_only=True)
        self._inspector = ForeignWriteInspector()
        self._schedule = Schedule()
        self._tasks: asyncio.TaskGroup | None = None
        self._kicked = asyncio.Event()
        self._probe = TargetProbe(target)
        self._bulk = Bulk(settings, lambda: self.group, self.beat)
        self._leading: asyncio.Task[None] | None = None
        self._lead_again = False
        #: Whether a cluster has changed since the routes were planned last.
        self._unplanned = False
        self.coordinator = Coordinator(
            self.id,
            strategy=load_strategy(settings.assignment),
            timeout=settings.session_timeout,
            lease=settings.session_timeout * _LEASE,
            delay=min(0.5, settings.heartbeat_interval / 2),
        )
        self.context: ConnectorContext
        self.routes: Routes
        self.group: Group
        self.progress: Progress
        self._log: ControlLog | LocalLog
        self._runner: TaskRunner

    @property
    def identity(self) -> Identity:
        return self.context.identity

    @property
    def fencings(self) -> int:
        """How often this worker has lost its lease while it had tasks."""
        return self._runner.lapses

    def may_send(self) -> bool:
        """Whether this worker holds its lease."""
        return self.coordinator.holds_lease(now())

    async def _publish(self) -> bool:
        return await self.group.publish()

    async def close(self) -> None:
        """Ends all connections."""
        for cluster in (self._source.cluster, self._target.cluster, self._control):
            await cluster.close()

    # Start.

    async def prepare(self) -> None:
        """Looks at both clusters and finds out whether the worker can run; writes nothing to them.

        Raises:
            StartupError, ClientError: it cannot; says why and the way out.
        """
        settings = self.settings
        if settings.backfill or settings.spark_master is not None:
            from replicator.spark.engine.session import refuse_no_spark  # noqa: PLC0415 - only where it is wanted

            refuse_no_spark()
        identity = await look(settings, self._source, self._target, self.store)
        self.context = ConnectorContext(
            source=self._source,
            target=self._target,
            identity=identity,
            store=self.store,
            budget=self.budget,
            inspector=self._inspector,
            recovering=asyncio.Semaphore(_RECOVERING),
            may_send=self.may_send,
            settle_seconds=settings.settle_seconds,
            drain_timeout=settings.drain_timeout,
            stall_seconds=settings.stall_seconds,
            audit=Audit(self.store.directory / "audit.jsonl"),
            publish=self._publish,
        )
        await Route(settings.connector, settings.route, self.context, self._bulk).check()
        self.routes = Routes(self.connectors, self.coordinator, self.context, self._bulk)
        self.store.save_identity({"worker": self.id, "source_id": identity.source, "target_id": identity.target})
        topics = Topics(settings.source_online_topic, settings.sink_online_topic, settings.control_topic)
        self.group = Group(
            settings.group or f"{identity.source}-{identity.target}",
            self.coordinator,
            self.store,
            topics,
            waits_for=lambda job: copies_ours(settings.route, self.connectors, self._source, job),
            on_change=self._kicked.set,
            on_records=self._on_records,
            on_lost=self._on_lost,
        )
        if settings.standalone:
            self._log = LocalLog(self.group.on_said)
        else:
            past = _PAST * settings.session_timeout
            self._log = ControlLog(
                self._control,
                {
                    topics.source_online: past,
                    topics.sink_online: past,
                    topics.control: 2 * settings.snapshot_interval,
                },
                on_said=self.group.on_said,
                on_reset=self.group.on_reset,
                on_caught_up=self.group.join,
            )
        self.group.use(self._log)
        cleaner = Cleaner(self.store, self.coordinator, self._source)
        self.progress = Progress(self.store, self.group, self.routes, cleaner)

    async def run(self, stop: asyncio.Event) -> None:
        """Takes part in the group until `stop` is set, then drains and leaves.

        Raises:
            StartupError: the system topics cannot be had, or another worker has our id.
        """
        await self._log.open(self._source.topics)
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._runner = TaskRunner(
                self.coordinator,
                self.routes,
                self.group,
                self.progress,
                target=self._target.cluster,
                work=tasks,
                on_change=self._on_tasks,
            )
            auditing = tasks.create_task(self._inspector.run(), name="inspector of foreign writes")
            watching = tasks.create_task(self.context.watch.run(self.context.target.cluster), name="target watch")
            self._begin_jobs()
            await self._join(stop)
            if not stop.is_set():
                self.connectors.bring(self.settings.connector, self.settings.route)
                self.reconcile()
                await self._take_part(stop)
            await self._schedule.end()
            auditing.cancel()
            watching.cancel()
        await self._log.close()
        await self.progress.save(force=True)
        if self.group.conflict is not None:
            raise self.group.conflict

    def _begin_jobs(self) -> None:
        settings = self.settings
        self._schedule.every(settings.heartbeat_interval, self.beat)
        self._schedule.every(settings.refresh_interval, self.refresh)
        self._schedule.every(settings.refresh_interval, self.sample)
        self._schedule.every(settings.save_interval, self.progress.save)
        self._schedule.every(settings.publish_interval, self.progress.publish)
        self._schedule.every(settings.snapshot_interval, self.publish_all)
        self._schedule.every(settings.heartbeat_interval, self._probe.probe)
        self._schedule.every(max(1.0, settings.stall_seconds / _WATCHED), self.watch)
        self._schedule.start()

    async def _join(self, stop: asyncio.Event) -> None:
        await self.beat()
        stopped = asyncio.ensure_future(stop.wait())
        joined = asyncio.ensure_future(self.group.joined.wait())
        await asyncio.wait([stopped, joined], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        joined.cancel()
        self.group.recall()
        self._spawn(self.progress.publish(force=True))  # or what we last said before a crash would count twice

    # The group.

    async def _take_part(self, stop: asyncio.Event) -> None:
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(lambda _: self._kicked.set())
        while self.coordinator.stage is not MemberState.LEFT:
            self._kicked.clear()
            if self.group.conflict is not None:
                await self._runner.fence()
                return
            if stop.is_set() and self.coordinator.stage is MemberState.ONLINE:
                self.coordinator.stage = MemberState.LEAVING
            wanted = self.routes.wanted()
            self._do(self.coordinator.step(now(), self.routes.tasks(), wanted=wanted))
            settled = self.coordinator.settled(wanted)
            self.rebalances.look(self.coordinator.assignment.generation, now(), settled=settled)
            self._lead()
            if self.coordinator.stage is MemberState.LEAVING and not self.coordinator.running:
                await self.progress.publish(force=True)
                self.coordinator.stage = MemberState.LEFT
            if self.group.unsaid:
                await self.beat()
            try:
                await asyncio.wait_for(self._kicked.wait(), _STEP)
            except TimeoutError:
                continue

    def _do(self, decision: Decision) -> None:
        for worker in decision.lost:
            log.warning("worker is gone", worker=worker)
        if decision.publish is not None and not decision.fence:
            self.group.assign(decision.publish)
            log.info(
                "tasks assigned",
                generation=decision.publish.generation.number,
                workers=sorted(decision.publish.members),
            )
            self._spawn(self._tell_assignment())
        self._runner.do(decision)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        assert self._tasks is not None  # noqa: S101 - while running
        task: asyncio.Task[None] = self._tasks.create_task(work)
        return task

    async def _tell_assignment(self) -> None:
        record = self.store.state.record(Kind.ASSIGNMENT, "")
        if record is not None:
            await self.group.publish([record])
        await self.group.publish_all()  # whoever comes new need not go back further than this

    def _on_tasks(self, stopped: bool) -> None:
        if stopped:
            self.reconcile()
        self._kicked.set()

    def _on_records(self, kinds: set[Kind]) -> None:
        if Kind.CONNECTOR in kinds and self.group.joined.is_set():
            self.reconcile()

    def _on_lost(self) -> None:
        self._spawn(self.group.publish_all())

    async def changed(self) -> None:
        """Connectors were changed here: follows them, and tells the group.

        Raises:
            Unreachable: the group could not be told; it is tried again.
        """
        self.reconcile()
        if not await self.group.publish():
            raise Unreachable("the source", "the change could not be published to the group")

    def reconcile(self) -> None:
        """Follows the connectors as they are now."""
        self._lead_again |= self.routes.reconcile()
        self._kicked.set()

    def _lead(self) -> None:
        """The leader makes the target ready for all, once everybody has adopted its assignment."""
        coordinator = self.coordinator
        leading = coordinator.leads() and coordinator.assignment.generation.leader == self.id
        if self._lead_again and leading and coordinator.agreed and (self._leading is None or self._leading.done()):
            self._lead_again = False
            self._leading = self._spawn(self._make_ready())

    async def _make_ready(self) -> None:
        self._unplanned |= not await self.routes.make_ready()  # the next look at the clusters tries again
        self._kicked.set()  # tasks of ours start now, and what they publish first has the maps
        await self.progress.save(force=True)
        await self.progress.publish()

    # Jobs.

    async def beat(self) -> None:
        """Says that we are there, and what we do."""
        await self.group.beat(
            {
                "rest": self.rest_address,
                "version": __version__,
                "tasks": task_states(self.routes),
                "waiting_for": self.group.waiting_for,
                "view": sorted([self.id, *self.coordinator.membership.others]),
                JOBS: self._bulk.claimed(self.coordinator.running),
            },
            target_reachable=self._probe.reachable,
        )

    async def publish_all(self) -> None:
        """The leader, or the first worker while nobody leads, tells all that the group knows.

        It does so well before brokers delete it.
        """
        members = self.coordinator.takes_tasks() or {self.id, *self.coordinator.membership.others}
        if self.id == min(members):
            await self.group.publish_all()

    async def refresh(self) -> None:
        """Looks for new topics and queues, and for brokers and masters that have moved."""
        try:
            for side in (self._source, self._target):
                _, changed = await side.refresh()
                self._unplanned |= changed  # however the rest of the look ends
            await self._log.refresh()
        except (ReplicatorError, OSError) as error:
            log.warning("refresh failed", reason=str(error))
            return
        log.debug("clusters looked at", changed=self._unplanned)
        if self._unplanned or self.routes.problems:
            self.routes.plan()
            self._unplanned = False
            self._lead_again = True
        for route in self.routes:
            route.follow_masters()
        if self.may_send():
            self._runner.start_new_queues()
        self.refreshed_at = time.time()
        self._kicked.set()

    async def sample(self) -> None:
        """The lag of queues that are not being pulled now, and how far their brokers' clocks are ahead."""
        for state in self.routes.states:
            state.skew = self.group.skews.get(state.source.broker, 0.0)
        for route in self.routes:
            await route.sample()

    async def watch(self) -> None:
        """Restarts queues that failed or stand still."""
        assert self._tasks is not None  # noqa: S101 - while running
        for route in self.routes:
            route.watch(time.monotonic(), self._tasks)
