"""Whether a cluster can be reached: whether any of its masters answers."""

from __future__ import annotations

import asyncio
from typing import Final

from replicator.client.brokers import read_config
from replicator.client.cluster import Cluster
from replicator.errors import ClientError, ProtocolError
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
        answers = await asyncio.gather(*(self._answers(broker) for broker in self._cluster.brokers()))
        if any(answers) != self.reachable:
            self.reachable = any(answers)
            log.warning("target can be reached again" if self.reachable else "target cannot be reached")

    async def _answers(self, broker: str) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE):
                await read_config(self._cluster.master(broker))
        except (ClientError, ProtocolError, TimeoutError):
            return False
        return True
