"""Groups that a target broker wants to have before it takes a message for a retry topic of POP consumers.

To brokers `%RETRY%GROUP_TOPIC` is the retry topic of a group GROUP_TOPIC (`SendMessageProcessor`); 5.5.0 makes none
by itself.
"""

from __future__ import annotations

import asyncio

from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.groups import read_groups, write_group
from replicator.client.system_topics import RETRY_PREFIX
from replicator.routing.plan import TopicPlan

__all__ = ["RetryGroups"]


class RetryGroups:
    """Makes those groups; what both clusters have is read once."""

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self._source = source
        self._target = target
        self._reading = asyncio.Lock()
        self._known: dict[str, frozenset[str]] = {}

    async def make(self, plan: TopicPlan) -> None:
        """Makes the group of a topic's name at its target brokers, unless it is one of the source: that is synced.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout, ProtocolError: a cluster does not answer, or refuses.
        """
        if not plan.target_topic.startswith(RETRY_PREFIX):
            return
        group = plan.target_topic.removeprefix(RETRY_PREFIX)
        for broker in self._source.brokers():
            if group in await self._groups(self._source.reader(broker)):
                return
        for broker in sorted({queue.broker for queue in plan.queue_map.values()}):
            if group not in await self._groups(self._target.master(broker)):
                await write_group(self._target.writer(broker), {"groupName": group})

    async def _groups(self, broker: Endpoint) -> frozenset[str]:
        async with self._reading:
            if broker.address not in self._known:
                self._known[broker.address] = frozenset((await read_groups(broker)).groups)
            return self._known[broker.address]
