"""Whether a cluster can be reached: whether any of its masters answers."""

from __future__ import annotations

import asyncio
from typing import Final

from replicator.client.brokers import read_config
from replicator.client.cluster import Cluster
from replicator.errors import ClientError, ProtocolError
from replicator.observe.excerpt import excerpt
from replicator.observe.logging import get_logger

__all__ = ["TargetProbe"]

#: Seconds that a broker may take to answer.
_PATIENCE: Final = 2.0

log = get_logger(__name__)


class TargetProbe:
    """Looks after the target: a worker that cannot reach it gets no tasks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.reachable = True

    async def probe(self) -> None:
        """Finds out whether any broker answers now."""
        brokers = self._cluster.brokers()
        problems = await asyncio.gather(*(self._problem(broker) for broker in brokers))
        reachable = "" in problems
        if reachable == self.reachable:
            return
        self.reachable = reachable
        if reachable:
            log.info("target can be reached again")
        else:
            reasons = [f"{broker}: {problem}" for broker, problem in zip(brokers, problems, strict=True)]
            log.warning("target cannot be reached", reason=excerpt(reasons) or "it has no broker with a master")

    async def _problem(self, broker: str) -> str:
        """Why a broker does not answer; empty: it does."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await read_config(self._cluster.master(broker))
        except (ClientError, ProtocolError) as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {_PATIENCE:g} s"
        return ""
