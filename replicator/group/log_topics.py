"""The system topics of a log: created where they are missing or of no use, and left alone elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from replicator.client.cluster import Cluster
from replicator.client.rights import denies_reading, denies_sending
from replicator.client.topics import READABLE, WRITABLE, TopicConfig, read_topics, write_topic
from replicator.errors import BrokerRefused, ClientError, ProtocolError, ReplicatorError
from replicator.protocol.codes import Request, Response
from replicator.routing.message_queue import MessageQueue

__all__ = ["LogTopics"]


class LogTopics:
    """The system topics `names`, each with one queue on each broker of `cluster`."""

    def __init__(self, cluster: Cluster, names: Collection[str]) -> None:
        self._cluster = cluster
        self._names = names

    async def provide(self, broker: str, known: Mapping[str, TopicConfig] | None) -> ReplicatorError | None:
        """Creates what `broker` lacks; why it could not, or why what it has cannot be used.

        A topic that serves is not written again: an administrator may have given it more queues, or other settings.

        Args:
            known: the topics of the broker; it is asked for them if they are not known.
        """
        try:
            self._cluster.writer(broker)  # fails without a master
            if known is None:
                known = (await read_topics(self._cluster.master(broker))).topics
            await asyncio.gather(*(self._provide(MessageQueue(name, broker, 0), known) for name in self._names))
        except (ClientError, ProtocolError) as error:
            return error
        return None

    async def _provide(self, queue: MessageQueue, known: Mapping[str, TopicConfig]) -> None:
        if not _serves(known.get(queue.topic)):
            await self.create(queue)
        elif self._cluster.account:
            await self._check_rights(queue)

    async def create(self, queue: MessageQueue) -> None:
        """Creates the topic of `queue` on its broker; errors as `write_topic`."""
        topic = TopicConfig(name=queue.topic, read_queues=1, write_queues=1)
        await write_topic(self._cluster.writer(queue.broker), topic)

    async def _check_rights(self, queue: MessageQueue) -> None:
        """A start that is refused says what is missing; heartbeats that are refused would be waited for.

        Raises:
            BrokerRefused: the account may not use the topic.
        """
        master = self._cluster.master(queue.broker)
        for request, denies in (
            (Request.SEND_BATCH_MESSAGE, denies_sending),
            (Request.PULL_MESSAGE, denies_reading),
        ):
            if remark := await denies(master, queue.topic):
                raise BrokerRefused(master.address, request, Response.NO_PERMISSION, remark)


def _serves(topic: TopicConfig | None) -> bool:
    """Whether there is such a topic with a queue that can be written and read."""
    usable = READABLE | WRITABLE
    return topic is not None and min(topic.read_queues, topic.write_queues) > 0 and topic.perm & usable == usable
