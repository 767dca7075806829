"""Groups that a target broker wants to have before it takes a message for a retry topic of POP consumers.

To brokers `%RETRY%GROUP_TOPIC` is the retry topic of a group GROUP_TOPIC (`SendMessageProcessor`); 5.5.0 makes none
by itself.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.groups import read_groups, write_group
from replicator.client.system_topics import RETRY_PREFIX
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.routing.plan import TopicPlan

__all__ = ["RetryGroups"]


class RetryGroups:
    """Makes those groups; what both clusters have is read once, and who does not answer is asked once."""

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self._source = source
        self._target = target
        #: By address, so that nobody waits for the answer of another broker.
        self._reading: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unresponsive = UnresponsiveBrokers({})
        self._known: dict[str, frozenset[str]] = {}

    async def make(self, plan: TopicPlan) -> None:
        """Makes the group of a topic's name at its target brokers, unless it is one of the source: that is synced.

        Raises:
            BrokerRefused, Unreachable, RequestTimeout, ProtocolError: a cluster does not answer, or refuses.
        """
        if not plan.target_topic.startswith(RETRY_PREFIX):
            return
        group = plan.target_topic.removeprefix(RETRY_PREFIX)
        if await self._is_of_source(group):
            return
        for broker in sorted({queue.broker for queue in plan.queue_map.values()}):
            if group not in await self._groups(self._target.master(broker)):
                await write_group(self._target.writer(broker), {"groupName": group})

    async def _is_of_source(self, group: str) -> bool:
        """Whether a broker of the source has the group; one that does not answer matters only where none has."""
        failures: list[ReplicatorError] = []
        for broker in self._source.brokers():
            try:
                if group in await self._groups(self._source.reader(broker)):
                    return True
            except (ClientError, ProtocolError) as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return False

    async def _groups(self, broker: Endpoint) -> frozenset[str]:
        async def read() -> frozenset[str]:
            broker.refuse_pause()
            return frozenset((await read_groups(broker)).groups)

        async with self._reading[broker.address]:
            if broker.address not in self._known:
                self._known[broker.address] = await self._unresponsive.ask(broker.address, read)
            return self._known[broker.address]
