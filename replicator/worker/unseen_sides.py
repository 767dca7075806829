"""What it means for a failover that the name servers of a side do not say which brokers it has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from replicator.client.cluster import Cluster
from replicator.connector.context import ConnectorContext
from replicator.errors import ReplicatorError
from replicator.state.known_brokers import Side

__all__ = ["unseen", "unseen_sides"]

_MEANS: Final[Mapping[Side, str]] = {
    "source": "what was created there lately is not copied",
    "target": "applications would not find them",
}


def unseen(side: Side, error: BaseException) -> str:
    """The problem, what follows from it, and what to do; known brokers are used on, so copying goes on."""
    return (
        f"the brokers of the {side} cannot be looked up: {error}: {_MEANS[side]};"
        " bring a name server back (`replicator doctor`)"
    )


async def unseen_sides(context: ConnectorContext, *, source_dead: bool = False) -> list[str]:
    """As `unseen`, of each side whose name servers are of no use now; a source that is dead is not asked."""
    clusters: dict[Side, Cluster] = {} if source_dead else {"source": context.source.cluster}
    clusters["target"] = context.target.cluster
    answers = await asyncio.gather(*(cluster.refresh() for cluster in clusters.values()), return_exceptions=True)
    found = []
    for side, answer in zip(clusters, answers, strict=True):
        if isinstance(answer, ReplicatorError | OSError):
            found.append(unseen(side, answer))
        elif isinstance(answer, BaseException):
            raise answer
    return found
