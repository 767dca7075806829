"""The changes that a route's metadata needs, as it was last known."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replicator.client.cluster import Cluster
from replicator.client.look import silence_of
from replicator.connector.sync.acl import Step
from replicator.errors import ClientError, Unreachable
from replicator.metadata.action import Unasked
from replicator.observe.duration import duration

__all__ = ["SyncPlan", "as_it_was"]


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """All that is to be done, where consumer groups stand, and the brokers of which neither is known.

    Attributes:
        at: when it was made, in seconds since the epoch.
        denied: what a failover may not do.
    """

    steps: Sequence[Step]
    groups: list[dict[str, Any]]
    unasked: list[Unasked]
    at: float
    denied: Sequence[str] = ()


def as_it_was(last: SyncPlan | None, kinds: Iterable[str], clusters: Iterable[Cluster]) -> SyncPlan:
    """The `last` plan for who cannot have a new one now: of all `kinds` it says so, and who does not answer."""
    known = "not looked at yet" if last is None else f"as seen {duration(max(0.0, time.time() - last.at))} ago"
    silent = [each for cluster in clusters for each in _silent(cluster)] or [("", "a broker does not answer")]
    unasked = [Unasked(kind, broker, f"{known}, since {why}") for kind in kinds for broker, why in silent]
    if last is None:
        return SyncPlan((), [], unasked, 0.0)
    told = {(each.kind, each.broker) for each in unasked}
    return replace(
        last, unasked=[*unasked, *(each for each in last.unasked if (each.kind, each.broker) not in told)]
    )


def _silent(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Its brokers that do not answer in this look, each with why."""
    if cluster.is_proxy:
        return
    for name in cluster.brokers():
        try:
            address = cluster.reader(name).address
        except ClientError:  # nobody knows where it is: it is not what is waited for
            continue
        if why := silence_of(address):
            yield name, str(Unreachable(address, why))
