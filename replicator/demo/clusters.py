"""The demo's two clusters, and the topic on the first of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from replicator.client.cluster import Cluster as Client
from replicator.client.topics import TopicConfig, write_topic
from replicator.sandbox import Cluster, ClusterSpec
from replicator.sandbox.cluster import together

__all__ = ["connected", "create_topic", "specs", "started"]


def specs(version: str) -> tuple[ClusterSpec, ClusterSpec]:
    """Source and target."""
    return ClusterSpec(name="east", version=version), ClusterSpec(name="west", version=version)


@asynccontextmanager
async def started(
    version: str, directory: Path, *, say: Callable[[str], None]
) -> AsyncIterator[tuple[Cluster, Cluster]]:
    """Source and target, started, and stopped with the context; `say` is called with each step."""
    source, target = (Cluster(spec, directory=directory / spec.name, say=say) for spec in specs(version))
    try:
        await together([source.start(), target.start()])
        yield source, target
    finally:
        await asyncio.gather(source.close(), target.close())


@asynccontextmanager
async def connected(namesrv: str) -> AsyncIterator[Client]:
    """A cluster client of the project's own."""
    client = Client([namesrv])
    try:
        await client.refresh()
        yield client
    finally:
        await client.close()


async def create_topic(namesrv: str, topic: str, *, queues: int) -> None:
    """Creates `topic` on every broker of the cluster."""
    async with connected(namesrv) as client:
        for broker in client.brokers():
            config = TopicConfig(name=topic, read_queues=queues, write_queues=queues)
            await write_topic(client.writer(broker), config)
