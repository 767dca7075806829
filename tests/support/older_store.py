"""A broker that comes back with an older store: what a restored disk or a promoted replica is like."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from replicator.client.brokers import max_offset
from replicator.sandbox import Cluster
from tests.support.traffic import connected
from tests.support.worker import until

__all__ = ["OlderStore"]


class OlderStore:
    """A copy of the store of a broker of `cluster`, the first one unless another is said, kept in `directory`."""

    def __init__(self, cluster: Cluster, directory: Path, *, number: int = 0) -> None:
        self._cluster = cluster
        self._broker = cluster.brokers[number]
        self._copy = directory

    async def save(self) -> None:
        """Takes the copy; the broker is stopped meanwhile."""
        await self._broker.stop()
        await asyncio.to_thread(shutil.copytree, self._broker.home / "store", self._copy)
        await self._broker.start()

    async def restore(self) -> None:
        """Kills the broker, and starts it with the copy."""
        await self._broker.kill()
        self._broker.wipe()
        await asyncio.to_thread(shutil.copytree, self._copy, self._broker.home / "store")
        await self._broker.start()

    async def shows(self, topic: str, end: int) -> None:
        """Returns when queue 0 of `topic` ends at `end`."""
        async with connected(self._cluster) as client:
            broker = client.master(self._broker.name)

            async def done() -> bool:
                return await max_offset(broker, topic, 0) == end

            await until(done)
