"""Waits for what brokers tell late: a queue's end lags behind what they have acknowledged."""

from __future__ import annotations

from replicator.client.brokers import max_offset
from replicator.client.topics import read_topics
from replicator.sandbox import Cluster
from tests.support.traffic import connected, raw_topic
from tests.support.worker import until

__all__ = ["ends", "settled"]


async def settled(cluster: Cluster, topic: str, count: int) -> None:
    """Returns when at least `count` messages of a topic can be read."""

    async def there() -> bool:
        return sum(map(len, (await raw_topic(cluster, topic)).values())) >= count

    await until(there, what=f"{count} messages in {topic}")


async def ends(cluster: Cluster, topic: str) -> list[int]:
    """The ends of a topic's queues, none where it is not there yet."""
    async with connected(cluster) as client:
        places = [
            (client.master(broker), topic, queue_id)
            for broker in client.brokers()
            if (config := (await read_topics(client.master(broker))).topics.get(topic)) is not None
            for queue_id in range(config.queues)
        ]
        return [await max_offset(*place) for place in places]
