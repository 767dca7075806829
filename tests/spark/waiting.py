"""Waits for what brokers tell late: a queue's end lags behind what they have acknowledged."""

from __future__ import annotations

from replicator.sandbox import Cluster
from tests.support.traffic import raw_topic
from tests.support.worker import until

__all__ = ["settled"]


async def settled(cluster: Cluster, topic: str, count: int) -> None:
    """Returns when at least `count` messages of a topic can be read."""

    async def there() -> bool:
        return sum(map(len, (await raw_topic(cluster, topic)).values())) >= count

    await until(there, what=f"{count} messages in {topic}")
