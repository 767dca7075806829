"""What the route would meet: topics, rights, what others do at the target, who copies already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset
from replicator.client.groups import consumers, read_groups
from replicator.client.queue_range import read_range
from replicator.connector.context import ConnectorContext
from replicator.connector.permissions import refuse_missing_rights
from replicator.connector.topics import RouteTopics
from replicator.errors import ClientError, ConfigError, ProtocolError, StartupError
from replicator.group.membership import MemberState
from replicator.group.signature import Signer
from replicator.metadata.groups import GroupSelector
from replicator.operate.doctor.finding import Finding, bad, good, odd
from replicator.routing.plan import TopicPlan
from replicator.routing.recovery import last_copy
from replicator.settings import Settings

__all__ = ["examine_route"]

_AT_ONCE: Final = 16
#: Messages at the end of a target queue among which a copy should be.
_LOOK_BACK: Final = 32
#: Groups of the target whose consumers are asked for, and topics that are named in one line.
_GROUPS: Final = 200
_NAMED: Final = 5
#: Heartbeats that are read of each broker.
_BEATS: Final = 500


async def examine_route(settings: Settings, context: ConnectorContext) -> list[Finding]:
    """What a worker with `settings` would meet."""
    topics = RouteTopics(settings.connector, settings.route, context)
    try:
        topics.plan()
    except ConfigError as error:
        return [bad("topics", "rename", error.message, error.hint or "choose other names with --rename")]
    findings = [*_planned(topics)]
    try:
        await refuse_missing_rights(topics, context)
    except StartupError as error:
        findings += [bad("rights", "topics", line, error.hint) for line in error.message.splitlines()]
    else:
        findings.append(good("rights", "topics", "the accounts may read, create and send to all that is selected"))
    clear = [plan for plan in topics.plans if not plan.problem]
    foreign = await bounded(lambda plan: _others(plan, context), clear, at_once=_AT_ONCE)
    findings += [finding for finding in foreign if finding is not None]
    findings += await _consumers(settings, context)
    findings.append(await _workers(settings, context))
    return findings


def _planned(topics: RouteTopics) -> Iterator[Finding]:
    for topic, problem in sorted(topics.problems.items()):
        yield bad("topics", topic, problem, "leave it out with --exclude-topics")
    clear = [plan for plan in topics.plans if not plan.problem]
    queues = sum(len(plan.queue_map) for plan in clear)
    if not clear:
        yield odd("topics", "selection", "no topic of the source is selected", "see --topics and --exclude-topics")
        return
    new = sum(1 for plan in clear if plan.writes)
    yield good("topics", "selection", f"{len(clear)} topics with {queues} queues; {new} to create or enlarge")


async def _others(plan: TopicPlan, context: ConnectorContext) -> Finding | None:
    """Whether a topic of the target has messages, and none of them is a copy."""
    for queue in sorted(set(plan.queue_map.values())):
        held = context.target.topics.get(queue.broker, {}).get(plan.target_topic)
        if held is None or queue.queue_id >= held.queues:
            continue
        try:
            master = context.target.cluster.master(queue.broker)
            if not await max_offset(master, plan.target_topic, queue.queue_id):
                continue
            copy = await last_copy(master, plan.target_topic, queue.queue_id, look_back=_LOOK_BACK)
        except (ClientError, ProtocolError) as error:
            return odd("target topic", plan.target_topic, f"it cannot be read: {error}", "see `rights` above")
        if copy is None:
            return odd(
                "target topic",
                plan.target_topic,
                "others have written to it: their messages stay, and are counted as foreign",
                "stop those producers until the switch, or choose another name with --rename",
            )
    return None


async def _consumers(settings: Settings, context: ConnectorContext) -> list[Finding]:
    """Groups that consume at the target already: offsets are never written under them."""
    if "offsets" not in settings.sync:
        return []
    selector = GroupSelector.of(settings.sync_groups, settings.exclude_groups)
    active: set[str] = set()
    asked = 0
    for broker in context.target.topics:
        try:
            master = context.target.cluster.master(broker)
            groups = [name for name in (await read_groups(master)).groups if selector.selects(name)]
            asked += len(groups)
            for group in groups[:_GROUPS]:
                if await consumers(master, group):
                    active.add(group)
        except (ClientError, ProtocolError) as error:
            return [odd("groups", broker, f"groups at the target cannot be listed: {error}", "see docs/ACL.md")]
    if not active:
        return [good("groups", "target", f"no consumers there; {asked} groups were asked for")]
    more = f" and {len(active) - _NAMED} more" if len(active) > _NAMED else ""
    shown = ", ".join(sorted(active)[:_NAMED]) + more
    message = f"they consume at the target already, so their offsets are not synced: {shown}"
    return [odd("groups", "target", message, "stop those consumers until the switch, or --exclude-groups")]


async def _workers(settings: Settings, context: ConnectorContext) -> Finding:
    """Who runs in the group that a worker with these settings would join."""
    identity = context.identity
    group = settings.worker_group or f"{identity.source}-{identity.target}"
    side = context.source if settings.coordination == "source" else context.target
    topic, signer, names = settings.source_online_topic, Signer.of(settings), set[str]()
    for broker, held in side.topics.items():
        if topic not in held:
            continue
        try:
            reader = side.cluster.reader(broker)
            end = await max_offset(reader, topic, 0)
            beats = [beat async for beat in read_range(reader, topic, 0, max(0, end - _BEATS), end)]
        except (ClientError, ProtocolError):
            continue  # what is wrong with that broker is said elsewhere
        newest = max((message.store_timestamp for message in beats), default=0)
        for message in beats:
            beat = signer.heartbeat(topic, message.body[4:], group)
            fresh = newest - message.store_timestamp <= settings.session_timeout * 1000
            if beat is not None and fresh and beat.stage is not MemberState.LEFT:
                names.add(beat.worker)
    if names:
        return good("group", group, f"workers were heard last: {', '.join(sorted(names))}; another one joins them")
    return good("group", group, "no worker was heard: the first one begins it")
