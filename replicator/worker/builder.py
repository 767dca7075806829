"""Builds a worker that is whole, after a look at both clusters: nothing is written to them before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.connector.context import ConnectorContext
from replicator.connector.identity import worker_id
from replicator.connector.route import Route
from replicator.connector.spark_jobs import Bulk
from replicator.connector.status import task_states
from replicator.connector.sync.acl import acl_options
from replicator.group.assignment import load_strategy
from replicator.group.coordinator import Coordinator
from replicator.group.job_lease import JOBS
from replicator.group.member import Group
from replicator.observe.audit import AUDIT, Audit
from replicator.observe.logging import get_logger
from replicator.plugins.limits import ConnectorLimits
from replicator.ranges.auditor import StreamAuditor
from replicator.routing.budget import MemoryBudget
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.recovery_slots import RecoverySlots
from replicator.settings import Settings
from replicator.state.audited_connectors import AuditedConnectors
from replicator.state.known_brokers import Side
from replicator.state.store import Store
from replicator.worker.agenda import Agenda
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes
from replicator.worker.forgotten_brokers import ForgottenBrokers, Log
from replicator.worker.found import Clusters, Found, find
from replicator.worker.group_part import take_part
from replicator.worker.halted_queues import HaltedQueues
from replicator.worker.heartbeats import Heartbeats
from replicator.worker.known_connector import GroupLog
from replicator.worker.leader import Leader
from replicator.worker.refresher import Refresher
from replicator.worker.releases import Releases
from replicator.worker.standby import Standby
from replicator.worker.state_cleaner import Cleaner
from replicator.worker.target_probe import TargetProbe
from replicator.worker.task_runner import TaskRunner
from replicator.worker.worker import Worker

__all__ = ["Connect", "build"]

#: Of the session timeout, how long we may send after sending a heartbeat that came back.
_LEASE: Final = 0.7
#: Heartbeat intervals in which a worker that lives was heard at the target.
_HEARING: Final = 1.5

log = get_logger(__name__)

#: Makes the client of one side, or one of the target for the mirror; what it is given is asked before the rest of
#: a request is written.
Connect = Callable[[Literal["source", "target", "mirror"], Callable[[], bool] | None], Cluster]


async def build(settings: Settings, *, connect: Connect, store: Store, rest_address: str) -> Worker:
    """A worker that can run; nothing is written to the clusters before that is certain.

    Args:
        rest_address: where others find its REST API.

    Raises:
        ConfigError: the assignment strategy cannot be had.
        StartupError, ClientError: it cannot run; says why and the way out.
    """
    name = store.state.worker = worker_id(settings, store.identity())
    mirrored = settings.coordination == "source" and not settings.standalone
    coordinator = Coordinator(
        name,
        strategy=load_strategy(settings.assignment),
        timeout=settings.session_timeout,
        lease=settings.session_timeout * _LEASE,
        delay=min(0.5, settings.heartbeat_interval / 2),
        hearing=_HEARING * settings.heartbeat_interval if mirrored else 0.0,
    )

    def may_send() -> bool:
        return coordinator.holds_lease(now())

    if settings.wants_spark:
        from replicator.spark.engine.session import refuse_no_spark  # noqa: PLC0415 - only where it is wanted

        refuse_no_spark()
    clusters = Clusters(
        connect(settings.coordination, None),
        connect("source", None),
        connect("target", None if settings.standalone else may_send),
        connect("mirror", None),
    )
    try:
        found = await find(settings, clusters, store, partial(connect, "mirror", None))
        return await _build(settings, coordinator, store, clusters, found, rest_address)
    except BaseException:
        for cluster in clusters:
            await cluster.close()
        raise


async def _build(
    settings: Settings,
    coordinator: Coordinator,
    store: Store,
    clusters: Clusters,
    found: Found,
    rest_address: str,
) -> Worker:
    source, target, identity = found.source, found.target, found.identity
    audit, agenda, work = Audit(store.directory / AUDIT), Agenda(), asyncio.TaskGroup()
    connectors = AuditedConnectors(store, ConnectorLimits.of(settings), audit)
    parts = (settings, coordinator, store, clusters, found)
    group, log, mirror = take_part(*parts, connectors=connectors, agenda=agenda)
    context = _context(*parts, group, audit=audit)
    probe = TargetProbe(target.cluster)
    heartbeats = Heartbeats(group, mirror, probe, source=identity.source, rest_address=rest_address)
    bulk = Bulk(settings, group, heartbeats.beat, sealer=context.sealer, auditor=context.auditor, identity=identity)
    if not found.standby:
        route = Route(settings.connector, settings.route, context, bulk)
        await route.check(partial(_is_known, settings, clusters, found, group))
    store.save_identity({**store.identity(), "worker": coordinator.me, **found.ids})
    routes = Routes(connectors, coordinator, context, bulk)
    heartbeats.report("tasks", lambda: task_states(routes))
    heartbeats.report(JOBS, lambda: bulk.claimed(coordinator.running))
    halted = HaltedQueues(connectors, routes, coordinator, context, group.skews)
    progress = Progress(store, group, routes, halted, Cleaner(store, coordinator, source))
    standby = None
    if found.standby and mirror is not None:
        group.waiting_for = "the source"
        standby = Standby(found.standby, source, target, mirror, heartbeats=heartbeats, agenda=agenda)

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
        refresher=Refresher(
            source,
            target,
            log,
            mirror,
            forgotten=ForgottenBrokers(store, _logs(settings.coordination, log, mirror)),
            group=group,
            routes=routes,
            runner=runner,
            agenda=agenda,
        ),
        releases=Releases(coordinator.me, routes, connectors, context, work=work),
        agenda=agenda,
        work=work,
    )


async def _is_known(settings: Settings, clusters: Clusters, found: Found, group: Group) -> bool:
    """Whether the group runs the connector that this worker was started with; nobody but us knows without one."""
    said = GroupLog(
        cluster=clusters.control,
        topic=settings.control_topic,
        group=found.group,
        signer=group.signer,
        past=found.past,
    )
    return not settings.standalone and await said.names(settings.connector)


def _auditor(audit: Audit, worker: str) -> StreamAuditor:
    """Reads back what is copied; differences are in the audit log, too."""

    def record(event: Mapping[str, Any]) -> None:
        audit.note({"at": time.time(), "worker": worker, **event})

    return StreamAuditor(record)


def _logs(coordination: Side, control: Log, mirror: Log | None) -> dict[Side, list[Log]]:
    """The logs of the group, by the side whose brokers have them."""
    logs: dict[Side, list[Log]] = {"source": [], "target": [] if mirror is None else [mirror]}
    logs[coordination].append(control)
    return logs


def _context(
    settings: Settings,
    coordinator: Coordinator,
    store: Store,
    clusters: Clusters,
    found: Found,
    group: Group,
    *,
    audit: Audit,
) -> ConnectorContext:
    return ConnectorContext(
        source=found.source,
        target=found.target,
        identity=found.identity,
        store=store,
        budget=MemoryBudget(settings.memory_bytes),
        inspector=ForeignWriteInspector(),
        recovering=RecoverySlots(),
        may_send=lambda: coordinator.holds_lease(now()),
        settle_timeout=settings.settle_timeout,
        drain_timeout=settings.drain_timeout,
        stall_timeout=settings.stall_timeout,
        metadata_refresh_interval=settings.metadata_refresh_interval,
        audit=audit,
        auditor=_auditor(audit, coordinator.me),
        publish=group.publish,
        group=group.name,
        unleased=clusters.mirror,
        accounts=acl_options(settings, own=(clusters.source.account, clusters.target.account))
        if "acl" in settings.sync
        else None,
        sealer=group.signer.sealer(found.identity.target),
        hears_other_secret=lambda: group.inbox.hears_other_secret,
    )
