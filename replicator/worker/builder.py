"""Builds a worker that is whole, after a look at both clusters: nothing is written to them before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.connector.context import ConnectorContext, look
from replicator.connector.identity import worker_id
from replicator.connector.route import Route
from replicator.connector.spark_jobs import Bulk
from replicator.connector.status import task_states
from replicator.connector.sync.acl import acl_options
from replicator.group.assignment import load_strategy
from replicator.group.control_log import ControlLog
from replicator.group.coordinator import Coordinator
from replicator.group.job_claim import copies_ours
from replicator.group.job_lease import JOBS
from replicator.group.local_log import LocalLog
from replicator.group.member import Group, Topics
from replicator.group.signature import Signer
from replicator.observe.audit import Audit
from replicator.observe.logging import get_logger
from replicator.plugins.limits import ConnectorLimits
from replicator.routing.budget import MemoryBudget
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state.connector_configs import Connectors
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.agenda import Agenda
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes
from replicator.worker.halted_queues import HaltedQueues
from replicator.worker.heartbeats import Heartbeats
from replicator.worker.leader import Leader
from replicator.worker.refresher import Refresher
from replicator.worker.state_cleaner import Cleaner
from replicator.worker.target_probe import TargetProbe
from replicator.worker.task_runner import TaskRunner
from replicator.worker.worker import Worker

__all__ = ["Connect", "build"]

_log = get_logger(__name__)

#: Queues that recover at once.
_RECOVERING: Final = 64
#: Of the session timeout, how long we may send after sending a heartbeat that came back.
_LEASE: Final = 0.7
#: Seconds of the heartbeats' past, in session timeouts, that a new worker looks at.
_PAST: Final = 2.0

#: Makes the client of one side; what it is given is asked before the rest of a request is written.
Connect = Callable[[Literal["source", "target"], Callable[[], bool] | None], Cluster]


class _Clusters(NamedTuple):
    """The clients of a worker. Heartbeats must not queue behind messages, so they have one of their own."""

    control: Cluster
    source: Cluster
    target: Cluster


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
        connect("source", None),
        connect("source", None),
        connect("target", None if settings.standalone else may_send),
    )
    try:
        return await _build(settings, coordinator, store, clusters, may_send, rest_address)
    except BaseException:
        for cluster in clusters:
            await cluster.close()
        raise


async def _build(
    settings: Settings,
    coordinator: Coordinator,
    store: Store,
    clusters: _Clusters,
    may_send: Callable[[], bool],
    rest_address: str,
) -> Worker:
    source = Discovery(clusters.source, masters_only=False)
    target = Discovery(clusters.target, masters_only=True)
    identity = await look(settings, source, target, store)
    connectors, agenda, work = Connectors(store, ConnectorLimits.of(settings)), Agenda(), asyncio.TaskGroup()
    group, log = _group(
        settings, coordinator, store, clusters.control, source, identity, connectors=connectors, agenda=agenda
    )
    context = ConnectorContext(
        source=source,
        target=target,
        identity=identity,
        store=store,
        budget=MemoryBudget(settings.memory_bytes),
        inspector=ForeignWriteInspector(),
        recovering=asyncio.Semaphore(_RECOVERING),
        may_send=may_send,
        settle_timeout=settings.settle_timeout,
        drain_timeout=settings.drain_timeout,
        stall_timeout=settings.stall_timeout,
        audit=Audit(store.directory / "audit.jsonl"),
        publish=group.publish,
        accounts=acl_options(settings, own=(clusters.source.account, clusters.target.account))
        if "acl" in settings.sync
        else None,
    )
    probe = TargetProbe(target.cluster)
    heartbeats = Heartbeats(group, probe, rest_address=rest_address)
    bulk = Bulk(settings, group, heartbeats.beat)
    await Route(settings.connector, settings.route, context, bulk).check()
    store.save_identity({"worker": coordinator.me, "source_id": identity.source, "target_id": identity.target})
    routes = Routes(connectors, coordinator, context, bulk)
    heartbeats.report("tasks", lambda: task_states(routes))
    heartbeats.report(JOBS, lambda: bulk.claimed(coordinator.running))
    halted = HaltedQueues(connectors, routes, coordinator, context, group.skews)
    progress = Progress(store, group, routes, halted, Cleaner(store, coordinator, source))

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
        progress=progress,
        heartbeats=heartbeats,
        probe=probe,
        runner=runner,
        leader=Leader(group, routes, progress, agenda, work=work),
        refresher=Refresher(source, target, log, group=group, routes=routes, runner=runner, agenda=agenda),
        agenda=agenda,
        work=work,
    )


def _group(
    settings: Settings,
    coordinator: Coordinator,
    store: Store,
    control: Cluster,
    source: Discovery,
    identity: Identity,
    *,
    connectors: Connectors,
    agenda: Agenda,
) -> tuple[Group, ControlLog | LocalLog]:
    """The group as this worker takes part in it, and the log that it goes by."""
    topics = Topics(settings.source_online_topic, settings.sink_online_topic, settings.control_topic)

    def on_records(kinds: set[Kind]) -> None:
        if Kind.CONNECTOR in kinds:
            agenda.wants_reconcile()

    group = Group(
        settings.worker_group or f"{identity.source}-{identity.target}",
        coordinator,
        store,
        topics,
        signer=Signer.of(settings),
        waits_for=lambda job: copies_ours(settings.route, connectors, source, job),
        on_change=agenda.wake,
        on_records=on_records,
        on_lost=agenda.wants_publish_all,
    )
    log: ControlLog | LocalLog
    if settings.standalone:
        log = LocalLog(group.on_said)
    else:
        if not group.signer.secret:
            _log.warning(
                "the system topics are not signed: who may write to them at the source can control this worker",
                hint="make a secret with `replicator secret FILE`, and set worker_group_secret_file on all workers",
            )
        past = _PAST * settings.session_timeout
        log = ControlLog(
            control,
            {
                topics.source_online: past,
                topics.sink_online: past,
                topics.control: 2 * settings.state_republish_interval,
            },
            on_said=group.on_said,
            on_reset=group.on_reset,
            on_caught_up=group.join,
        )
    group.use(log)
    return group, log
