"""Whether a failover may put what POP consumers hold into retry topics of the target, said before any do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.discovery import Discovery
from replicator.client.offsets import OffsetTable, read_offsets
from replicator.client.pending import timer_counts
from replicator.connector.context import ConnectorContext
from replicator.connector.sync.retry_rights import Denial, why_not_made
from replicator.errors import ClientError, ProtocolError
from replicator.metadata.groups import GroupSelector
from replicator.metadata.pop_checkpoints import REVIVE_GROUP, REVIVE_PREFIX
from replicator.metadata.redelivery_plan import retry_topic_name
from replicator.observe.counted import counted
from replicator.operate.doctor.finding import Finding, good, odd, unchecked
from replicator.routing.plan import TopicPlan
from replicator.settings import Settings

__all__ = ["examine_retry_topics", "judge_denials"]

_AT_ONCE: Final = 16
#: Groups in topics that are asked about; rights are mostly given by prefixes.
_ASKED: Final = 100

#: A group, and a topic at the target that it consumes.
Consumed = tuple[str, str]


async def examine_retry_topics(
    settings: Settings, plans: Sequence[TopicPlan], context: ConnectorContext, of_5: Collection[str]
) -> list[Finding]:
    """Of the groups that are synced, where anybody consumes by POP at the source.

    Args:
        of_5: the target's brokers of 5.x, which alone know POP.
    """
    account, brokers = context.target.cluster.account, sorted(of_5 & context.target.topics.keys())
    if not account or not brokers or "offsets" not in settings.sync or context.source.cluster.is_proxy:
        return []
    subject = f"target account {account}"
    selector = GroupSelector.of(settings.sync_groups, settings.exclude_groups)
    try:
        groups = _consumed(
            await _offsets(context.source), selector, {each.topic: each.target_topic for each in plans}
        )

        async def ask(each: Consumed) -> Denial | None:
            return await why_not_made(context, brokers[0], retry_topic_name(*each))

        denials = await bounded(ask, groups, at_once=_AT_ONCE)
    except (ClientError, ProtocolError) as error:
        return [unchecked("rights", subject, f"whether it may make retry topics, because {error.message}")]
    return [*judge_denials(subject, groups, denials)]


async def _offsets(source: Discovery) -> list[OffsetTable]:
    """Of each broker where anybody consumes by POP."""
    found = []
    for name in sorted(source.topics):
        reader = source.cluster.reader(name)
        table = await read_offsets(reader)
        revived = any(group == REVIVE_GROUP for group, _ in table.offsets)
        if revived or any(topic.startswith(REVIVE_PREFIX) for topic in await timer_counts(reader)):
            found.append(table)
    return found


def _consumed(tables: Iterable[OffsetTable], selector: GroupSelector, topics: Mapping[str, str]) -> list[Consumed]:
    """Selected groups, and what of the route they consume by its name at the target."""
    keys = sorted({key for table in tables for key in table.offsets})
    return [(group, topics[topic]) for group, topic in keys if topic in topics and selector.selects(group)][:_ASKED]


def judge_denials(subject: str, groups: Sequence[Consumed], denials: Sequence[Denial | None]) -> Iterable[Finding]:
    """Of the answers about each group: brokers do not say which of them consume by POP."""
    denied = [(group, denial) for (group, _), denial in zip(groups, denials, strict=True) if denial]
    if denied:
        names, first = {group for group, _ in denied}, denied[0][1]
        more = f", and so for {counted(len(names) - 1, 'more group')}" if len(names) > 1 else ""
        message = f"a failover could not put what POP consumers hold into retry topics: {first.message}{more}"
        yield odd("rights", subject, message, first.way_out)
    elif groups:
        yield good("rights", subject, "a failover may put what POP consumers hold into their retry topics")
