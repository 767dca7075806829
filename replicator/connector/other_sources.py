"""Several sources, one target topic: which of its queues hold copies that routes from other clusters have made.

Two sources in one queue take from groups what offsets stand on: their place in it would be that of whichever route
wrote it last. So a topic's first queues, and those that it gets later, do not go where others' copies are, unless
settings say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.endpoint import Endpoint
from replicator.client.pull import message_at
from replicator.connector.context import ConnectorContext
from replicator.routing.plan import TopicPlan, queues_of
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import MAX_QUEUES, Queue, QueueMap
from replicator.routing.recovery import last_copy
from replicator.settings import RouteSettings

__all__ = ["OtherSources", "TargetCopies"]

#: Messages read from the end of a target queue to find where its copies came from.
_LOOK_BACK: Final = 1024
#: The same of a source queue.
_LOOK_BACK_AT_SOURCE: Final = 32
#: Queues that are looked at at the same time.
_AT_ONCE: Final = 16


class TargetCopies(NamedTuple):
    """What copies a target topic has: queues of our source with those that hold their copies, and how many queues
    hold copies from each other cluster; `untold` are those with copies from our source of which nothing says that
    they are of the topic that is meant.
    """

    ours: dict[Queue, Queue]
    others: Counter[str]
    untold: set[Queue]


class OtherSources:
    """Target queues that a route's topics leave to other sources, by what was looked at last.

    Attributes:
        queues: by source topic; nothing of ours may go there that does not go there already.
    """

    def __init__(self, settings: RouteSettings, context: ConnectorContext) -> None:
        self.queues: dict[str, frozenset[Queue]] = {}
        self._policy = settings.on_other_source
        self._context = context

    async def read(self, target_topic: str, queues: Iterable[Queue], *, of: str = "") -> TargetCopies:
        """The copies in some queues of a target topic, by the last one of each.

        Args:
            of: the topic at the source, where others have the same name at the target: copies do not say which one
                they are of, but the source has the message in one of them.

        Raises:
            ClientError, ProtocolError: a broker cannot be asked, or does not answer as one.
        """
        found = TargetCopies({}, Counter(), set())
        newest: dict[Queue, int] = {}

        async def read(queue: Queue) -> None:
            master = self._context.target.cluster.master(queue.broker)
            copy = await last_copy(master, target_topic, queue.queue_id, look_back=_LOOK_BACK)
            if copy is None or copy.queue_id >= MAX_QUEUES:
                return
            if copy.cluster == self._context.identity.source:
                if of and not await self._has(of, copy):
                    found.untold.add(queue)
                    return
                source = Queue(copy.broker, copy.queue_id)
                # Two have copies of it where its first target was given up and has come back.
                if copy.offset >= newest.get(source, -1):
                    newest[source] = copy.offset
                    found.ours[source] = queue
            else:
                found.others[copy.cluster] += 1

        await bounded(read, queues, at_once=_AT_ONCE)
        return found

    async def _has(self, topic: str, copy: Provenance) -> bool:
        """Whether the source still has the message of a copy in this topic."""
        source = self._context.source
        config = source.topics.get(copy.broker, {}).get(topic)
        if config is None or copy.queue_id >= config.queues:
            return False
        message = await message_at(source.cluster.reader(copy.broker), topic, copy.queue_id, copy.offset)
        return message is not None and message.store_timestamp == copy.stored

    async def consider(self, plan: TopicPlan, known: QueueMap, *, left: Collection[Queue] = ()) -> str:
        """Decides where queues go that have no target yet, before they get one.

        Args:
            known: the queue map so far; empty for a topic that is not copied yet.
            left: target queues that nothing goes to anyway.

        Returns:
            why the topic cannot be copied by these settings, or nothing.

        Raises:
            ClientError, ProtocolError: as `read`.
        """
        free = set(queues_of(self._context.target.topics, plan.target_topic)).difference(known.values(), left)
        self.queues.pop(plan.topic, None)
        if self._policy == "share" or not free or not set(plan.queue_map).difference(known):
            return ""
        found = await self.read(plan.target_topic, sorted(free))
        if not found.others:
            return ""
        if not known and self._policy == "fail":
            return _refusal(plan, found)
        if await self._is_copied_back(plan.topic):
            # Each route would make room for what the other has made, again and again.
            return "" if known else _refusal(plan, found, "; own-queues is not possible, as it is copied back, too")
        self.queues[plan.topic] = frozenset(free.difference(found.ours.values()))
        return ""

    async def _is_copied_back(self, topic: str) -> bool:
        """Whether the source topic holds copies from our target."""
        source, target = self._context.source, self._context.identity.target

        async def read(queue: Queue) -> Provenance | None:
            reader: Endpoint = source.cluster.reader(queue.broker)
            return await last_copy(reader, topic, queue.queue_id, look_back=_LOOK_BACK_AT_SOURCE)

        copies = await bounded(read, queues_of(source.topics, topic), at_once=_AT_ONCE)
        return any(copy is not None and copy.cluster == target for copy in copies)


def _refusal(plan: TopicPlan, found: TargetCopies, more: str = "") -> str:
    clusters = ", ".join(sorted(found.others))
    return (
        f"{found.others.total()} queues of topic {plan.target_topic} hold copies from another source"
        f" (cluster {clusters}): on_other_source=own-queues gives each source queues of its own, share lets them"
        f" write to the same ones, and with rename the topic gets another name{more}"
    )
