"""A worker's part in its group: the log that the group goes by, and its mirror at the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replicator.client.cluster import Cluster
from replicator.group.control_log import ControlLog, LogMessage
from replicator.group.coordinator import Coordinator
from replicator.group.job_claim import copies_ours
from replicator.group.known_group import ALL_PAST
from replicator.group.local_log import LocalLog
from replicator.group.member import Group, Topics
from replicator.group.membership import Membership
from replicator.group.mirror import Mirror
from replicator.group.no_log import NoLog
from replicator.group.signature import Signer
from replicator.observe.logging import get_logger
from replicator.settings import Settings
from replicator.state.connector_configs import Connectors
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.agenda import Agenda
from replicator.worker.found import Clusters, Found

__all__ = ["take_part"]

#: Session timeouts that a new worker looks back for heartbeats.
_PAST: Final = 2.0

log = get_logger(__name__)


def take_part(
    settings: Settings,
    coordinator: Coordinator,
    store: Store,
    clusters: Clusters,
    found: Found,
    *,
    connectors: Connectors,
    agenda: Agenda,
) -> tuple[Group, ControlLog | LocalLog | NoLog, Mirror | None]:
    """The group as this worker takes part in it, the log that it goes by, and its mirror at the target."""
    topics = Topics(settings.source_online_topic, settings.sink_online_topic, settings.control_topic)

    def on_records(kinds: set[Kind]) -> None:
        if Kind.CONNECTOR in kinds or found.standby:
            agenda.wants_reconcile()

    group = Group(
        found.group,
        coordinator,
        store,
        topics,
        signer=Signer.of(settings),
        waits_for=lambda job: copies_ours(settings.route, connectors, found.source, job),
        on_change=agenda.wake,
        on_records=on_records,
        on_lost=agenda.wants_publish_all,
    )
    mirror = None if settings.standalone else _mirror(settings, group, clusters.mirror, found, on_records, agenda)
    if mirror is not None:
        group.on_publish = mirror.note
    carrier: ControlLog | LocalLog | NoLog
    if settings.standalone:
        carrier = LocalLog(group.on_said)
    elif found.standby:
        carrier = NoLog()
    else:
        if not group.signer.secret:
            log.warning(
                "the system topics are not signed: who may write to them can control this worker",
                cluster=settings.coordination,
                hint="make a secret with `replicator secret FILE`, and set worker_group_secret_file on all workers",
            )
        heartbeats = _PAST * settings.session_timeout
        carrier = ControlLog(
            clusters.control,
            {topics.source_online: heartbeats, topics.sink_online: heartbeats, topics.control: found.past},
            side=settings.coordination,
            on_said=group.on_said,
            on_reset=group.on_reset,
            on_caught_up=group.join,
        )
    group.use(carrier)
    return group, carrier, mirror


def _mirror(
    settings: Settings,
    group: Group,
    cluster: Cluster,
    found: Found,
    on_records: Callable[[set[Kind]], None],
    agenda: Agenda,
) -> Mirror:
    topics = Topics(settings.source_online_topic, settings.sink_online_topic, settings.control_topic)
    mirror = Mirror(
        group.name,
        found.identity.source,
        Membership(group.coordinator.me, timeout=settings.session_timeout),
        group.store,
        topics,
        signer=group.signer,
        coordination=settings.coordination,
        on_records=on_records,
        on_change=agenda.wake,
    )

    mirror.stands_by = bool(found.standby)
    if settings.coordination == "source" and not found.standby:
        mirror.leases.on_lease = group.coordinator.membership.holds_lease
        group.coordinator.membership.listened = mirror.listened

    def reading(
        topics: dict[str, float], on_said: Callable[[LogMessage], None], on_caught_up: Callable[[], None]
    ) -> ControlLog:
        return ControlLog(
            cluster,
            topics,
            side="target",
            on_said=on_said,
            on_reset=lambda _: mirror.note(group.store.state.records()),
            on_caught_up=on_caught_up,
        )

    def whole_topic(on_caught_up: Callable[[], None]) -> ControlLog:
        def done() -> None:
            agenda.wants_publish_all()  # others may have started without it
            on_caught_up()

        return reading({topics.control: ALL_PAST}, mirror.on_past, done)

    heartbeats = _PAST * settings.session_timeout
    mirror.use(
        reading(
            {topics.source_online: heartbeats, topics.control: found.past}, mirror.on_said, mirror.on_caught_up
        ),
        whole_topic,
    )
    return mirror
