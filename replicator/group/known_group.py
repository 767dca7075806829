"""Which group a worker belongs to that cannot ask its source: what the group's mirror at the target says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.errors import ReplicatorError, StartupError
from replicator.group.control_log import ControlLog, LogMessage
from replicator.group.signature import Forged, Signer
from replicator.group.wire import NewerForm, Unreadable, read_message
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state.record import Kind, Record

__all__ = ["KnownGroup", "clusters_record", "find_group", "match"]

#: Seconds of the log's past that are read, at first in intervals of republication, and if that does not help.
_RECENT: Final = 2
_ALL: Final = 10 * 365 * 86400.0
#: Seconds that reading all of it may take.
_READING: Final = 120.0


class KnownGroup(NamedTuple):
    """A group and the ids of its clusters; what it knows lies within `past` seconds of the log."""

    name: str
    identity: Identity
    past: float


def clusters_record(known: Mapping[str, Any] | None, settings: Settings, identity: Identity) -> dict[str, Any]:
    """The value of the record by which a worker without its source finds its group.

    Args:
        known: what it is now; other workers may know the source by other name servers.
    """
    servers = {*settings.source.namesrv}
    if known is not None and known["source"]["id"] == identity.source:
        servers |= {*known["source"]["namesrv"]}
    return {"source": {"id": identity.source, "namesrv": sorted(servers)}, "target": {"id": identity.target}}


def match(
    groups: Mapping[str, Mapping[str, Any]], settings: Settings, cluster: str
) -> dict[str, Mapping[str, Any]]:
    """Those of the groups that `settings` mean, each with its clusters.

    Args:
        groups: the clusters of each group, as in `clusters_record`.
        cluster: the name of the target cluster.
    """
    if settings.target.id is not None:
        targets = {settings.target.id}
    else:
        targets = {cluster, *(f"{cluster}@{address}" for address in settings.target.namesrv)}

    def is_meant(name: str, clusters: Mapping[str, Any]) -> bool:
        if clusters["target"]["id"] not in targets:
            return False
        if settings.worker_group is not None:
            return name == settings.worker_group
        if settings.source.id is not None:
            return bool(clusters["source"]["id"] == settings.source.id)
        return not {*clusters["source"]["namesrv"]}.isdisjoint(settings.source.namesrv)

    return {name: clusters for name, clusters in groups.items() if is_meant(name, clusters)}


async def find_group(settings: Settings, target: Discovery, connect: Callable[[], Cluster]) -> KnownGroup | None:
    """The group that `settings` mean; None if the target knows none.

    Args:
        connect: makes a client of the target.

    Raises:
        StartupError: the target knows several, or its system topic cannot be read.
    """
    if not any(settings.control_topic in topics for topics in target.topics.values()):
        return None
    recent = _RECENT * settings.state_republish_interval
    for past in (recent, _ALL):
        seen = await _read(settings, target, connect, past)
        meant = match({name: each.clusters for name, each in seen.items()}, settings, target.cluster_name)
        if len(meant) > 1:
            raise StartupError(
                "the source cannot be reached, and the target knows several groups of it:"
                f" {', '.join(sorted(meant))}",
                hint="choose one with worker_group",
            )
        for name, clusters in meant.items():
            identity = Identity(clusters["source"]["id"], clusters["target"]["id"])
            return KnownGroup(name, identity, seen[name].age + recent)
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

    def seen(self) -> dict[str, _Seen]:
        return {
            group: _Seen(record.value, (self._newest[said.queue] - said.stored) / 1000)
            for group, (said, record) in self._found.items()
        }


async def _read(
    settings: Settings, target: Discovery, connect: Callable[[], Cluster], past: float
) -> dict[str, _Seen]:
    signer = replace(Signer.of(settings), cluster="target")
    cluster, reading, caught_up = connect(), _Reading(signer), asyncio.Event()
    log = ControlLog(
        cluster,
        {settings.control_topic: past},
        side="target",
        on_said=reading.on_said,
        on_reset=lambda _: None,
        on_caught_up=caught_up.set,
    )
    try:
        await log.open(target.topics)
        async with asyncio.timeout(_READING):
            await caught_up.wait()
    except (ReplicatorError, TimeoutError) as error:
        raise StartupError(
            f"the source cannot be reached, and the group's mirror at the target cannot be read: {error}",
            hint="start the source, or let the target's account read the system topics",
        ) from None
    finally:
        await log.close()
        await cluster.close()
    return reading.seen()
