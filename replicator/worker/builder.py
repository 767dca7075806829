"""Builds a worker that is whole, after a look at both clusters: nothing is written to them before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Literal, NamedTuple

from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.connector.context import ConnectorContext, NoSource, look
from replicator.connector.identity import refuse_other_ids, worker_id
from replicator.connector.route import Route
from replicator.connector.spark_jobs import Bulk
from replicator.connector.status import task_states
from replicator.group.assignment import load_strategy
from replicator.group.control_log import ControlLog
from replicator.group.coordinator import Coordinator
from replicator.group.job_claim import copies_ours
from replicator.group.job_lease import JOBS
from replicator.group.known_group import KnownGroup, find_group
from replicator.group.local_log import LocalLog
from replicator.group.member import Group, Topics
from replicator.group.membership import Membership
from replicator.group.mirror import Mirror
from replicator.group.no_log import NoLog
from replicator.observe.audit import Audit
from replicator.routing.budget import MemoryBudget
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state.connector_configs import Connectors
from replicator.state.record import Kind, Record
from replicator.state.store import Store
from replicator.worker.agenda import Agenda
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes
from replicator.worker.halted_queues import HaltedQueues
from replicator.worker.heartbeats import Heartbeats
from replicator.worker.leader import Leader
from replicator.worker.refresher import Refresher
from replicator.worker.standby import Standby
from replicator.worker.state_cleaner import Cleaner
from replicator.worker.target_probe import TargetProbe
from replicator.worker.task_runner import TaskRunner
from replicator.worker.worker import Worker

__all__ = ["Connect", "build"]

#: Queues that recover at once.
_RECOVERING: Final = 64
#: Of the session timeout, how long we may send after sending a heartbeat that came back.
_LEASE: Final = 0.7
#: Seconds of the past that a new worker looks at: of heartbeats in session timeouts, of state in intervals of
#: republication.
_PAST: Final = 2.0
_STATE_PAST: Final = 2.0

#: Makes the client of one side; what it is given is asked before the rest of a request is written.
Connect = Callable[[Literal["source", "target"], Callable[[], bool] | None], Cluster]


class _Clusters(NamedTuple):
    """The clients of a worker. Heartbeats must not queue behind messages, so they have others.

    `control` is of the cluster that the group coordinates over, `mirror` of the target.
    """

    control: Cluster
    source: Cluster
    target: Cluster
    mirror: Cluster


class _Found(NamedTuple):
    """What a start has found: the two clusters, the name of the group, and why the source is away, if it is.

    `past` are the seconds of the control topics' past that say all that the group knows.
    """

    source: Discovery
    target: Discovery
    identity: Identity
    group: str
    past: float
    standby: str = ""


async def build(settings: Settings, *, connect: Connect, store: Store, rest_address: str) -> Worker:
    """A worker that can run; nothing is written to the clusters before that is certain.

    Args:
        rest_address: where others find its REST API.

    Raises:
        ConfigError: the assignment strategy cannot be had.
        StartupError, ClientError: it cannot run; says why and the way out.
    """
    name = store.state.worker = worker_id(settings, store.identity())
    coordinator = Coordinator(
        name,
        strategy=load_strategy(settings.assignment),
        timeout=settings.session_timeout,
        lease=settings.session_timeout * _LEASE,
        delay=min(0.5, settings.heartbeat_interval / 2),
    )

    def may_send() -> bool:
        return coordinator.holds_lease(now())

    if settings.backfill or settings.spark_master is not None:
        from replicator.spark.engine.session import refuse_no_spark  # noqa: PLC0415 - only where it is wanted

        refuse_no_spark()
    clusters = _Clusters(
        connect(settings.coordination, None),
        connect("source", None),
        connect("target", None if settings.standalone else may_send),
        connect("target", None),
    )
    try:
        found = await _look(settings, clusters, store, partial(connect, "target", None))
        return await _build(settings, coordinator, store, clusters, found, rest_address)
    except BaseException:
        for cluster in clusters:
            await cluster.close()
        raise


async def _look(settings: Settings, clusters: _Clusters, store: Store, connect: Callable[[], Cluster]) -> _Found:
    """Looks at both clusters. If the source is away, a group that the target or the store knows is enough.

    Raises:
        NoBrokers: a side has no broker yet, and nothing is known of the group.
        StartupError: it cannot run; says why and the way out.
    """
    source = Discovery(clusters.source, masters_only=False)
    target = Discovery(clusters.target, masters_only=True)
    past = _STATE_PAST * settings.state_republish_interval
    try:
        identity = await look(settings, source, target, store)
    except NoSource as error:
        known = None if settings.standalone else await find_group(settings, target, connect)
        kept = store.identity()
        if known is None and "source_id" in kept and not settings.standalone:
            identity = Identity(kept["source_id"], kept["target_id"])
            known = KnownGroup(_group_name(settings, identity), identity, past)
        if known is None:
            raise error.__cause__ or error from None
        refuse_other_ids(known.identity, kept)
        return _Found(source, target, known.identity, known.name, known.past, error.message)
    return _Found(source, target, identity, _group_name(settings, identity), past)


def _group_name(settings: Settings, identity: Identity) -> str:
    return settings.worker_group or f"{identity.source}-{identity.target}"


async def _build(
    settings: Settings,
    coordinator: Coordinator,
    store: Store,
    clusters: _Clusters,
    found: _Found,
    rest_address: str,
) -> Worker:
    source, target, identity = found.source, found.target, found.identity
    connectors, agenda, work = Connectors(store), Agenda(), asyncio.TaskGroup()
    group, log, mirror = _group(settings, coordinator, store, clusters, found, connectors=connectors, agenda=agenda)
    context = ConnectorContext(
        source=source,
        target=target,
        identity=identity,
        store=store,
        budget=MemoryBudget(settings.memory_bytes),
        inspector=ForeignWriteInspector(),
        recovering=asyncio.Semaphore(_RECOVERING),
        may_send=lambda: coordinator.holds_lease(now()),
        settle_timeout=settings.settle_timeout,
        drain_timeout=settings.drain_timeout,
        stall_timeout=settings.stall_timeout,
        audit=Audit(store.directory / "audit.jsonl"),
        publish=group.publish,
    )
    probe = TargetProbe(target.cluster)
    heartbeats = Heartbeats(group, mirror, probe, rest_address=rest_address)
    bulk = Bulk(settings, group, heartbeats.beat)
    if not found.standby:
        await Route(settings.connector, settings.route, context, bulk).check()
    store.save_identity({"worker": coordinator.me, "source_id": identity.source, "target_id": identity.target})
    routes = Routes(connectors, coordinator, context, bulk)
    heartbeats.report("tasks", lambda: task_states(routes))
    heartbeats.report(JOBS, lambda: bulk.claimed(coordinator.running))
    halted = HaltedQueues(connectors, routes, coordinator, context, group.skews)
    progress = Progress(store, group, routes, halted, Cleaner(store, coordinator, source))

    standby = None
    if found.standby and mirror is not None:
        standby = Standby(found.standby, source, target, mirror, store=store, heartbeats=heartbeats, agenda=agenda)

    def on_tasks(stopped: bool) -> None:
        if stopped:
            agenda.wants_reconcile()
        agenda.wake()

    runner = TaskRunner(coordinator, routes, group, progress, target=target.cluster, work=work, on_change=on_tasks)
    return Worker(
        settings=settings,
        rest_address=rest_address,
        clusters=clusters,
        context=context,
        connectors=connectors,
        routes=routes,
        halted=halted,
        group=group,
        control=log,
        mirror=mirror,
        standby=standby,
        progress=progress,
        heartbeats=heartbeats,
        probe=probe,
        runner=runner,
        leader=Leader(group, routes, progress, agenda, work=work),
        refresher=Refresher(source, target, log, mirror, group=group, routes=routes, runner=runner, agenda=agenda),
        agenda=agenda,
        work=work,
    )


def _group(
    settings: Settings,
    coordinator: Coordinator,
    store: Store,
    clusters: _Clusters,
    found: _Found,
    *,
    connectors: Connectors,
    agenda: Agenda,
) -> tuple[Group, ControlLog | LocalLog | NoLog, Mirror | None]:
    """The group as this worker takes part in it, the log that it goes by, and its mirror at the target."""
    topics = Topics(settings.source_online_topic, settings.sink_online_topic, settings.control_topic)

    def on_records(kinds: set[Kind]) -> None:
        if Kind.CONNECTOR in kinds or found.standby:
            agenda.wants_reconcile()

    def on_publish(records: list[Record]) -> None:
        if mirror is not None:
            mirror.note(records)

    group = Group(
        found.group,
        coordinator,
        store,
        topics,
        waits_for=lambda job: copies_ours(settings.route, connectors, found.source, job),
        on_change=agenda.wake,
        on_records=on_records,
        on_lost=agenda.wants_publish_all,
        on_publish=on_publish,
    )
    mirror = None if settings.standalone else _mirror(settings, group, clusters.mirror, found, on_records, agenda)
    log: ControlLog | LocalLog | NoLog
    if settings.standalone:
        log = LocalLog(group.on_said)
    elif found.standby:
        log = NoLog()
    else:
        heartbeats = _PAST * settings.session_timeout
        log = ControlLog(
            clusters.control,
            {topics.source_online: heartbeats, topics.sink_online: heartbeats, topics.control: found.past},
            side=settings.coordination,
            on_said=group.on_said,
            on_reset=group.on_reset,
            on_caught_up=group.join,
        )
    group.use(log)
    return group, log, mirror


def _mirror(
    settings: Settings,
    group: Group,
    cluster: Cluster,
    found: _Found,
    on_records: Callable[[set[Kind]], None],
    agenda: Agenda,
) -> Mirror:
    topics = Topics(settings.source_online_topic, settings.sink_online_topic, settings.control_topic)
    mirror = Mirror(
        group.name,
        Membership(group.coordinator.me, timeout=settings.session_timeout),
        group.store,
        topics,
        incarnation=group.incarnation,
        coordination=settings.coordination,
        writes=settings.coordination == "source" or bool(found.standby),
        on_records=on_records,
        on_change=agenda.wake,
    )
    mirror.use(
        ControlLog(
            cluster,
            {topics.source_online: _PAST * settings.session_timeout, topics.control: found.past},
            side="target",
            on_said=mirror.on_said,
            on_reset=lambda _: mirror.note(group.store.state.records()),
            on_caught_up=agenda.wake,
        )
    )
    return mirror
