"""What tests of slaves begin with."""

from __future__ import annotations

from replicator.client.brokers import max_offset
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.client.topics import TopicConfig, read_topics, write_topic
from replicator.sandbox import Broker, Cluster
from tests.support.worker import until

__all__ = ["replicated"]


async def replicated(cluster: Cluster, topic: str, count: int) -> Broker:
    """The slave of the only broker, when it has as many messages in queue 0 of `topic`.

    It has the topic then, too, which a 5.x slave fetches once a minute only.
    """
    (master,) = cluster.brokers
    slave = master.slave
    assert slave is not None
    endpoint = Endpoint(slave.address, Security())

    async def has_all() -> bool:
        return topic in (await read_topics(endpoint)).topics and await max_offset(endpoint, topic, 0) == count

    try:
        if cluster.spec.version >= "5":
            await write_topic(endpoint, TopicConfig(name=topic, read_queues=1, write_queues=1))
        await until(has_all, what="the slave has it all")
    finally:
        await endpoint.close()
    return slave
