"""Whether our accounts may copy topics that are new to us, before anything is written for them.

What they may not later, or of a topic that turns up later, is a problem of that topic alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from enum import Enum
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.discovery import Discovery
from replicator.client.rights import denies_creation, denies_reading, denies_sending
from replicator.client.topics import READABLE
from replicator.connector.context import ConnectorContext
from replicator.connector.topics import RouteTopics
from replicator.errors import ClientError, ProtocolError, StartupError
from replicator.observe.logging import get_logger
from replicator.routing.plan import TopicPlan

__all__ = ["Right", "ask_rights", "refuse_missing_rights"]

#: Topics asked about at the same time.
_AT_ONCE: Final = 32
#: Topics named in an error.
_NAMED: Final = 10

log = get_logger(__name__)


class Right(Enum):
    """What an account has to be allowed to do with a topic: the account's side, and a verb."""

    READ = "source", "read"
    CREATE = "target", "create"
    SEND = "target", "send to"
    READ_BACK = "target", "read"

    @property
    def side(self) -> str:
        return self.value[0]

    @property
    def verb(self) -> str:
        return self.value[1]


async def refuse_missing_rights(topics: RouteTopics, context: ConnectorContext) -> None:
    """Asks one broker of each side that we have an account for about each topic that has no queue map yet.

    Raises:
        StartupError: an account may not read, make or send to one.
    """

    async def missing(plan: TopicPlan) -> str:
        try:
            return await _missing(plan, context)
        except (ClientError, ProtocolError) as error:  # then its queues wait, and say so
            log.warning("permissions cannot be checked", connector=topics.name, topic=plan.topic, reason=str(error))
            return ""

    new = [
        plan for plan in topics.plans if not plan.problem and not context.store.is_mapped(topics.name, plan.topic)
    ]
    found = await bounded(missing, new, at_once=_AT_ONCE)
    refused = {plan.topic: why for plan, why in zip(new, found, strict=True) if why}
    if refused:
        lines = [f"topic {topic}: {why}" for topic, why in refused.items()]
        more = [f"and {len(lines) - _NAMED} more topics"] if len(lines) > _NAMED else []
        others = (
            "pending out of --sync"
            if refused.keys() <= topics.parked.keys()
            else "topics out with --exclude-topics"
        )
        raise StartupError(
            "\n".join(lines[:_NAMED] + more),
            hint=f"grant the account what docs/ACL.md lists, or leave {others}",
        )


async def _missing(plan: TopicPlan, context: ConnectorContext) -> str:
    """The right that is missing first; empty where none is."""
    async for right, why in ask_rights(plan, context):
        if why:
            name = "it" if right is Right.READ else f"topic {plan.target_topic}"
            return f"the {right.side}'s account may not {right.verb} {name} ({why})"
    return ""


async def ask_rights(plan: TopicPlan, context: ConnectorContext) -> AsyncIterator[tuple[Right, str]]:
    """Each right that a topic's copy needs, and why the broker that was asked denies it; empty where it does not.

    Those that nobody can be asked about are left out.

    Raises:
        ClientError, ProtocolError: a broker does not answer.
    """
    source, target, name = context.source, context.target, plan.target_topic
    for broker in _readable(source, plan.topic):
        yield Right.READ, await denies_reading(source.cluster.reader(broker), plan.topic)
    for broker in _asked(target, [broker for broker, _ in plan.writes]):
        yield (
            Right.CREATE,
            await denies_creation(target.cluster.writer(broker), name, cluster=target.cluster_name),
        )
    for broker in _asked(target, [queue.broker for queue in plan.queue_map.values()]):
        yield Right.SEND, await denies_sending(target.cluster.writer(broker), name)
    for broker in _readable(target, name):
        yield Right.READ_BACK, await denies_reading(target.cluster.master(broker), name)


def _readable(cluster: Discovery, topic: str) -> list[str]:
    """A broker that has the topic and lets it be read, if there is one that answers."""
    there = [broker for broker, held in cluster.topics.items() if topic in held and held[topic].perm & READABLE]
    return _asked(cluster, there)


def _asked(cluster: Discovery, brokers: Iterable[str]) -> list[str]:
    """The one of `brokers` to ask: the first that answered at the last look, if any did; none where we have
    no account, since a broker that requires one has already refused to list its topics.
    """
    if not cluster.cluster.account:
        return []
    return sorted(set(brokers) & (set(cluster.topics) - set(cluster.failures)))[:1]
