"""What a start finds: the two clusters and the group, or the group alone where the source is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from replicator.client.cluster import Cluster
from replicator.client.discovery import Discovery
from replicator.connector.context import NoSource, read_clusters
from replicator.connector.identity import group_name, refuse_other_group, refuse_other_ids
from replicator.group.known_group import KnownGroup, UnreadMirror, find_group
from replicator.group.mirror_past import seconds_needed
from replicator.observe.logging import get_logger
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.settings.proxy import LEFT_OUT
from replicator.state.store import Store

__all__ = ["Clusters", "Found", "find"]

log = get_logger(__name__)


class Clusters(NamedTuple):
    """The clients of a worker. Heartbeats must not queue behind messages, so they have others.

    `control` is of the cluster that the group coordinates over, `mirror` of the target.
    """

    control: Cluster
    source: Cluster
    target: Cluster
    mirror: Cluster


class Found(NamedTuple):
    """What a start has found: the two clusters, the name of the group, and why the source is away, if it is.

    `past` are the seconds of the control topics' past that say all that the group knows.
    """

    source: Discovery
    target: Discovery
    identity: Identity
    group: str
    past: float
    standby: str = ""

    @property
    def ids(self) -> dict[str, str]:
        """What the store is to keep of it: not the group of a standby, which was only found at the target."""
        group = {} if self.standby else {"group": self.group}
        return {"source_id": self.identity.source, "target_id": self.identity.target, **group}


async def find(settings: Settings, clusters: Clusters, store: Store, connect: Callable[[], Cluster]) -> Found:
    """Looks at both clusters. If the source is away, a group that the target or the store knows is enough.

    Raises:
        NoBrokers: a side has no broker yet, and nothing is known of the group.
        StartupError: it cannot run; says why and the way out.
    """
    source = Discovery(clusters.source, masters_only=False)
    target = Discovery(clusters.target, masters_only=True)
    past = seconds_needed(settings.state_republish_interval, settings.session_timeout)
    try:
        identity = await read_clusters(settings, source, target, store)
    except NoSource as error:
        kept = store.identity()
        meant = settings
        if settings.worker_group is None and "group" in kept:
            meant = settings.model_copy(update={"worker_group": kept["group"]})
        try:
            known = None if settings.standalone else await find_group(meant, target, connect, recent=past)
        except UnreadMirror as unread:
            if "source_id" not in kept:
                raise
            log.warning("the group's mirror is not read: this worker goes by its own files", reason=str(unread))
            known = None
        if known is None and "source_id" in kept and not settings.standalone:
            identity = Identity(kept["source_id"], kept["target_id"])
            known = KnownGroup(group_name(settings, identity), identity, past)
        if known is None:
            raise error.__cause__ or error from None
        refuse_other_ids(known.identity, kept)
        refuse_other_group(known.name, kept)
        return Found(source, target, known.identity, known.name, known.past, error.message)
    if clusters.source.is_proxy:
        log.warning("of the source only a Proxy is reached", sync=settings.sync, left_out=LEFT_OUT)
    name = group_name(settings, identity)
    refuse_other_group(name, store.identity())
    return Found(source, target, identity, name, past)
