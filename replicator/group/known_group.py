"""Which group a worker belongs to that cannot ask its source: what the group's mirror at the target says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.errors import ReplicatorError, StartupError
from replicator.group.control_log import ControlLog, LogMessage, until_read
from replicator.group.signature import Forged, Signer
from replicator.group.wire import NewerForm, Unreadable, read_message
from replicator.observe.logging import get_logger
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state.record import Kind, Record

__all__ = ["ALL_PAST", "KnownGroup", "UnreadMirror", "clusters_record", "find_group", "match"]

#: Seconds of a log's past that are more than it has.
ALL_PAST: Final = 10 * 365 * 86400.0
#: Seconds that reading all of it may take.
_READING: Final = 120.0


log = get_logger(__name__)


class UnreadMirror(StartupError):
    """The target may know the group, but does not show what it knows."""


class KnownGroup(NamedTuple):
    """A group and the ids of its clusters; what it knows lies within `past` seconds of the log."""

    name: str
    identity: Identity
    past: float


def clusters_record(
    known: Mapping[str, Any] | None, settings: Settings, group: str, identity: Identity
) -> dict[str, Any]:
    """The value of the record by which a worker without its source finds its group.

    Args:
        known: what it is now; other workers may know the source by other name servers.
    """
    servers = {*settings.source.namesrv}
    if known is not None and known["source"]["id"] == identity.source:
        servers |= {*known["source"]["namesrv"]}
    return {
        "group": group,
        "source": {"id": identity.source, "namesrv": sorted(servers)},
        "target": {"id": identity.target},
    }


def match(found: Iterable[Mapping[str, Any]], settings: Settings, cluster: str) -> list[Mapping[str, Any]]:
    """Those of the groups that `settings` mean.

    Args:
        found: the clusters of each group, as in `clusters_record`.
        cluster: the name of the target cluster.
    """
    if settings.target.id is not None:
        targets = {settings.target.id}
    else:
        targets = {cluster, *(f"{cluster}@{address}" for address in settings.target.namesrv)}

    def is_meant(clusters: Mapping[str, Any]) -> bool:
        if clusters["target"]["id"] not in targets:
            return False
        if settings.worker_group is not None and clusters["group"] != settings.worker_group:
            return False
        if settings.source.id is not None:
            return bool(clusters["source"]["id"] == settings.source.id)
        known = not {*clusters["source"]["namesrv"]}.isdisjoint(settings.source.namesrv)
        return known or settings.worker_group is not None

    return [clusters for clusters in found if is_meant(clusters)]


async def find_group(
    settings: Settings, target: Discovery, connect: Callable[[], Cluster], *, recent: float
) -> KnownGroup | None:
    """The group that `settings` mean; None if the target knows none.

    Args:
        connect: makes a client of the target.
        recent: seconds of the log's past that are read at first, and all of it if that does not help.

    Raises:
        StartupError: the target knows several.
        UnreadMirror: its system topic cannot be read.
    """
    if not any(settings.control_topic in topics for topics in target.topics.values()):
        return None
    for past in (recent, ALL_PAST):
        seen = await _read(settings, target, connect, past)
        meant = match([each.clusters for each in seen], settings, target.cluster_name)
        if len(meant) > 1:
            names = sorted(f"{clusters['group']} of {clusters['source']['id']}" for clusters in meant)
            raise StartupError(
                f"the source cannot be reached, and the target knows several groups of it: {', '.join(names)}",
                hint="choose one with worker_group, or source.id",
            )
        for each in seen:
            if each.clusters in meant:
                clusters = each.clusters
                identity = Identity(clusters["source"]["id"], clusters["target"]["id"])
                return KnownGroup(clusters["group"], identity, each.age + recent)
    return None


class _Seen(NamedTuple):
    """`age`: seconds from the record to the newest message of its queue."""

    clusters: Mapping[str, Any]
    age: float


class _Reading:
    """The newest record of each group's clusters, of those that `signer` can believe."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._newest: dict[MessageQueue, int] = {}
        self._found: dict[str, tuple[LogMessage, Record]] = {}

    def on_said(self, said: LogMessage) -> None:
        """A message; reading goes on whatever is in it."""
        try:
            self._take(said)
        except Exception as error:  # noqa: BLE001 - an error here would end the reader
            log.warning("message on a system topic ignored", queue=str(said.queue), reason=str(error)[:500])

    def _take(self, said: LogMessage) -> None:
        self._newest[said.queue] = max(said.stored, self._newest.get(said.queue, 0))
        try:
            verified = self._signer.verify(said.queue.topic, said.body, (self._signer.claimed(said.body),))
            if verified is None:
                return
            envelope = read_message(verified.body)
            records, _ = envelope.records()
        except (Forged, Unreadable, NewerForm):
            return
        for record in records:
            known = self._found.get(envelope.group)
            later = known is None or known[1].version <= record.version
            if record.kind is Kind.CLUSTERS and record.value is not None and later:
                self._found[envelope.group] = said, record

    def seen(self) -> list[_Seen]:
        return [
            _Seen(record.value, (self._newest[said.queue] - said.stored) / 1000)
            for said, record in self._found.values()
        ]


async def _read(settings: Settings, target: Discovery, connect: Callable[[], Cluster], past: float) -> list[_Seen]:
    signer = replace(Signer.of(settings), cluster="target")
    cluster, reading, caught_up = connect(), _Reading(signer), asyncio.Event()
    carrier = ControlLog(
        cluster,
        {settings.control_topic: past},
        side="target",
        on_said=reading.on_said,
        on_reset=lambda _: None,
        on_caught_up=caught_up.set,
    )
    try:
        await carrier.open(target.topics)
        async with asyncio.timeout(_READING):
            await until_read(carrier, caught_up)
    except (ReplicatorError, TimeoutError) as error:
        why = str(error) or f"not within {_READING:g} s"
        raise UnreadMirror(
            f"the source cannot be reached, and the group's mirror at the target cannot be read: {why}",
            hint="start the source, or let the target's account read the system topics",
        ) from None
    finally:
        await carrier.close()
        await cluster.close()
    return reading.seen()
