"""The two clusters as a worker sees them, checked before anything is written: what all its routes share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from acl_sync import AclOptions
from replicator.client.brokers import DEFAULT_MAX_MESSAGE, check_filter
from replicator.client.cluster import Cluster, Topology
from replicator.client.discovery import Discovery
from replicator.client.nameservers import NoBrokers
from replicator.client.pull import Subscription
from replicator.client.refused import wrong_account
from replicator.connector.identity import identify, refuse_same_cluster, refuse_same_names
from replicator.errors import BrokerRefused, ReplicatorError, StartupError, is_absence
from replicator.observe.audit import Audit
from replicator.observe.logging import get_logger
from replicator.protocol.codes import Response
from replicator.ranges.auditor import StreamAuditor
from replicator.routing.budget import MemoryBudget
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.options import Identity
from replicator.routing.recovery_slots import RecoverySlots
from replicator.routing.seal import Sealer
from replicator.routing.state import Tally
from replicator.routing.target_watch import TargetWatch
from replicator.settings import ClusterSettings, RouteSettings, Settings
from replicator.state.store import Store

__all__ = ["BrokerAway", "ConnectorContext", "NoSource", "OutOfReach", "first_refresh", "read_clusters"]

log = get_logger(__name__)


async def _no_group() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorContext:
    """What all routes of a worker have in common.

    `may_send` says whether this worker holds its lease; `settle_timeout` how long a dead owner's last request
    may still wait inside a broker; `drain_timeout` how many seconds a task gets to settle what it has pulled;
    `metadata_refresh_interval` the seconds between two refreshes; `recovering` lets in the queues that may
    recover at once; `audit` records what is changed at the target besides messages. `publish` sends the store's
    changes to the group, and returns whether it could. `group` is the worker group's name, and empty where
    there is none. `unleased` is the target over connections that do not ask for the lease, for what a failover
    sends there; None: as all else. `accounts` is what the worker's own settings let routes do to accounts;
    None: nothing. `tallies` are the counters of queues that ran here before, by their keys; `auditor` reads
    back what was copied. `sealer` has the group's secret, if there is one; `hears_other_secret` says whether
    workers of the group write now that have another one, or none.
    """

    source: Discovery
    target: Discovery
    identity: Identity
    store: Store
    budget: MemoryBudget
    inspector: ForeignWriteInspector
    recovering: RecoverySlots
    may_send: Callable[[], bool]
    settle_timeout: float
    drain_timeout: float
    stall_timeout: float
    metadata_refresh_interval: float
    audit: Audit
    publish: Callable[[], Awaitable[bool]] = _no_group
    accounts: AclOptions | None = None
    group: str = ""
    unleased: Cluster | None = None
    barrier: DispatchBarrier = field(default_factory=DispatchBarrier)
    watch: TargetWatch = field(default_factory=TargetWatch)
    auditor: StreamAuditor = field(default_factory=StreamAuditor)
    tallies: dict[str, Tally] = field(default_factory=dict)
    sealer: Sealer | None = None
    hears_other_secret: Callable[[], bool] = lambda: False

    def message_limit(self, broker: str) -> int:
        """Bytes that a message, or a batch, may have at a target broker."""
        config = self.target.configs.get(broker)
        return config.max_message_size if config else DEFAULT_MAX_MESSAGE

    def system_names(self) -> Iterable[str]:
        """Names of clusters and brokers, which brokers use as topics of their own."""
        yield from self.source.topics
        yield self.source.cluster_name


class OutOfReach(StartupError):
    """No name server or broker of one side answers."""


class BrokerAway(StartupError):
    """A broker does not answer, while others of its cluster do."""


class NoSource(StartupError):
    """The source is out of reach, or has no broker, while the target can be used; its cause says which."""


async def read_clusters(settings: Settings, source: Discovery, target: Discovery, store: Store) -> Identity:
    """Reads both clusters' brokers and topics, and checks that the clusters can be used; writes nothing to them.

    Raises:
        NoBrokers: the target has no broker yet.
        NoSource: the source is out of reach, or has no broker yet.
        OutOfReach, BrokerAway: as `first_refresh`.
        StartupError: they cannot; says why and the way out.
    """
    known = "source_id" in store.identity()
    ours, theirs = await asyncio.gather(
        first_refresh(source, "source", settings.source, all_brokers=not known),
        first_refresh(target, "target", settings.target),
        return_exceptions=True,
    )
    if isinstance(theirs, BaseException):
        raise ours if isinstance(ours, BaseException) else theirs
    if not target.topics:
        raise NoBrokers("the target has no broker with a master", hint="start one")
    if isinstance(ours, OutOfReach | NoBrokers):
        raise NoSource(ours.message, hint=ours.hint) from ours
    if isinstance(ours, BaseException):
        raise ours
    if source.cluster.is_proxy:
        refuse_same_names(settings, ours, theirs)
    elif settings.source.socks.address == settings.target.socks.address:  # else equal addresses may be two machines
        refuse_same_cluster(ours, theirs)
    identity = identify(settings, ours, theirs, store.identity())
    await refuse_filter(settings, source)
    return identity


async def refuse_filter(route: RouteSettings, source: Discovery) -> None:
    """SQL92 filters must be switched on at every source broker, and understood there.

    Raises:
        StartupError: one does not filter so.
    """
    if not route.sql:
        return
    for broker in source.configs:
        try:
            await check_filter(source.cluster.reader(broker), Subscription("SQL92", route.sql))
        except BrokerRefused as error:
            if error.code == Response.SUBSCRIPTION_PARSE_FAILED:
                reason = error.remark.partition("\n")[0].rpartition(": ")[2]
                problem = f"source broker {broker} rejects it ({reason})"
                way_out = "a condition looks like: colour = 'red' AND size > 3"
            else:
                problem = f"source broker {broker} does not filter by SQL92 ({error.remark})"
                way_out = "set enablePropertyFilter=true there, or use tags"
            raise StartupError(f"sql = {route.sql!r}: {problem}", hint=way_out) from None


async def first_refresh(
    discovery: Discovery, side: str, settings: ClusterSettings, *, all_brokers: bool = True
) -> Topology:
    """Reads one cluster's brokers and topics.

    Args:
        all_brokers: each has to answer. Otherwise one is enough: the queues of the others wait.

    Raises:
        NoBrokers: it has no broker yet.
        OutOfReach: nobody answers.
        BrokerAway: one does not that has to.
        StartupError: it cannot be used; says why and the way out.
    """
    try:
        topology = await discovery.refresh()
    except ReplicatorError as error:
        namesrv = ",".join(settings.namesrv)
        away = OutOfReach if is_absence(error) else StartupError
        kind = NoBrokers if isinstance(error, NoBrokers) else away
        raise kind(
            f"{side}.namesrv = {namesrv!r}: {error.message}",
            hint=error.hint or f"check the address, that the {discovery.cluster.asked} runs, and TLS",
        ) from None
    silent = all(map(is_absence, discovery.failures.values()))
    for broker, failure in discovery.failures.items():
        if silent and discovery.topics and not all_brokers:
            log.warning("broker is away", side=side, broker=broker, reason=str(failure))
            continue
        away = BrokerAway if discovery.topics else OutOfReach
        raise (away if silent else StartupError)(
            f"{side} broker {broker} does not list its topics: {failure.message}", hint=_way_out(failure, side)
        )
    return topology


def _way_out(failure: ReplicatorError, side: str) -> str:
    """What to do about a broker that does not list its topics."""
    if not isinstance(failure, BrokerRefused):
        return failure.hint or "it must be reachable"
    rights = "the account must be allowed to read the cluster (docs/ACL.md has its rights)"
    return wrong_account(failure.remark, side) or failure.hint or rights
