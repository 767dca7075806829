"""What a route has to do, from what both clusters have now: a pure function, shown before it is applied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from replicator.client.system_topics import RETRY_PREFIX, is_group_topic
from replicator.client.topics import READABLE, WRITABLE, TopicConfig
from replicator.routing.options import Identity
from replicator.routing.queue_map import MAX_QUEUES, Queue, QueueMap, extend, needed_queues, write_queues
from replicator.routing.selector import TopicSelector, refuse_template, refused_name, rename, rename_retries

__all__ = ["MAX_QUEUES", "TopicPlan", "Topics", "chosen_names", "plan_topics", "queues_of", "unsupported"]

#: Per broker: its topics by name.
Topics = Mapping[str, Mapping[str, TopicConfig]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic: its queue map, and what the target needs before the first message flows.

    `writes` are (broker, topic) to create or to enlarge; `problem` says why it cannot be copied.
    """

    topic: str
    target_topic: str
    queue_map: QueueMap
    writes: Sequence[tuple[str, TopicConfig]] = ()
    problem: str = ""


def unsupported(config: TopicConfig) -> str:
    """Why a topic of this kind cannot be copied; empty when it can."""
    if config.attributes.get("queue.type") == "BatchCQ":
        return "it has a batch consume queue (queue.type=BatchCQ), whose offsets do not count messages"
    if config.attributes.get("cleanup.policy") == "COMPACTION":
        return "it is compacted (cleanup.policy=COMPACTION): its offsets have gaps that do not mean losses"
    if config.static:
        return (
            "it is a static topic (updateStaticTopic), whose queues and offsets are those of a mapping over brokers"
        )
    if config.queues > MAX_QUEUES:
        return f"it has {config.queues:,} queues on a broker, and up to {MAX_QUEUES:,} can be copied"
    return ""


def _too_many(queue_map: QueueMap) -> str:
    """Why no target broker is given that many queues; empty when each may have its own."""
    last = max(queue_map.values(), key=lambda queue: queue.queue_id, default=Queue("", 0))
    if last.queue_id < MAX_QUEUES:
        return ""
    have = f"{last.queue_id + 1:,} queues on target broker {last.broker}"
    return f"it would have {have}, and up to {MAX_QUEUES:,} can be copied"


def _moved_levels(source: Mapping[str, TopicConfig], queue_map: QueueMap) -> str:
    """Why the levels of a PRIORITY topic would not be kept, which are its queue numbers; empty when they are."""
    if not _is_of_kind("PRIORITY", source):
        return ""
    for queue, target in sorted(queue_map.items()):
        if queue.queue_id != target.queue_id:
            return (
                f"its queue numbers are priorities (message.type=PRIORITY), and {queue} would be"
                f" {target}: a target with as many brokers as the source keeps them"
            )
    return ""


def _without_lite_topics(
    name: str,
    target_name: str,
    source: Mapping[str, TopicConfig],
    queue_map: QueueMap,
    no_light_queues: Collection[str],
) -> str:
    """Why copies of a LITE topic would not get into lite topics, which are light queues; empty when they do."""
    if not _is_of_kind("LITE", source):
        return ""
    if name != target_name:
        return (
            "it is a lite topic (message.type=LITE), which its messages name: it must keep its name at the target"
        )
    if brokers := {queue.broker for queue in queue_map.values()} & {*no_light_queues}:
        return (
            "it is a lite topic (message.type=LITE), and there are no light message queues on target broker"
            f" {', '.join(sorted(brokers))}: set enableLmq and enableMultiDispatch to true there, and restart it"
        )
    return ""


def _is_of_kind(kind: str, source: Mapping[str, TopicConfig]) -> bool:
    return any(config.attributes.get("message.type") == kind for config in source.values())


def chosen_names(
    source: Topics, selector: TopicSelector, template: str, identity: Identity, *, system: Sequence[str]
) -> dict[str, str]:
    """The topics of the source that are selected, sorted, each with its name at the target.

    Args:
        system: names of clusters and brokers, which brokers use as topics of their own.

    Raises:
        ConfigError: whatever a topic is called, it would get an impossible name.
    """
    refuse_template(template, source=identity.source, target=identity.target)
    names = {name for topics in source.values() for name in topics if selector.selects(name, system=system)}
    of_groups = {name for name in names if is_group_topic(name)}
    renamed = {
        name: rename(template, name, source=identity.source, target=identity.target) for name in names - of_groups
    }
    renamed |= {
        name: rename_retries(name, renamed) if name.startswith(RETRY_PREFIX) else name for name in of_groups
    }
    return dict(sorted(renamed.items()))


def plan_topics(
    source: Topics,
    target: Topics,
    known: Mapping[str, QueueMap],
    names: Mapping[str, str],
    *,
    forgotten: Collection[str] = (),
    left: Mapping[str, Collection[Queue]] = MappingProxyType({}),
    protected: Collection[str] = (),
    no_light_queues: Collection[str] = (),
) -> list[TopicPlan]:
    """A plan for each of `names` that the source has.

    Topics of one name at the target have queues of their own there.

    Args:
        target: its brokers that have a master; at least one.
        known: queue maps made before, by source topic. They are only ever extended.
        names: topics of the source, each with its name at the target.
        forgotten: source brokers whose queues are known and not copied any more.
        left: target queues that nothing may go to, by source topic.
        protected: those of `names` that applications may not write to at the target: where they are new there, they
            are read-only from the beginning.
        no_light_queues: brokers of the target that fill none.
    """
    plans = []
    maps = {name: known.get(name, {}) for name in names}
    sharing: dict[str, list[str]] = {}
    for name, target_name in names.items():
        sharing.setdefault(target_name, []).append(name)
    for name, target_name in names.items():
        having = {broker: topics[name] for broker, topics in source.items() if name in topics}
        if not having:
            continue
        others = (other for other in sharing[target_name] if other != name)
        beside = {queue for other in others for queue in maps[other].values()}
        plan = _plan_topic(
            name,
            target_name,
            having,
            target,
            known.get(name, {}),
            forgotten=forgotten,
            left={*left.get(name, ()), *beside},
            perm=READABLE if name in protected else READABLE | WRITABLE,
            no_light_queues=no_light_queues,
        )
        maps[name] = plan.queue_map
        plans.append(plan)
    return plans


def _plan_topic(
    name: str,
    target_name: str,
    source: Mapping[str, TopicConfig],
    target: Topics,
    known: QueueMap,
    *,
    forgotten: Collection[str],
    left: Collection[Queue],
    perm: int,
    no_light_queues: Collection[str],
) -> TopicPlan:
    there = [topics[target_name] for topics in target.values() if target_name in topics]
    odd = (f"at the target {unsupported(each)}" for each in there if each.static or each.queues > MAX_QUEUES)
    # Groups' topics keep their names, which may be longer than those that people give.
    named = "" if is_group_topic(name) else refused_name(target_name)
    problem = next(filter(None, (named, *map(unsupported, source.values()), *odd)), "")
    copied = {source: queue for source, queue in known.items() if source.broker not in forgotten}
    if problem:
        return TopicPlan(topic=name, target_topic=target_name, queue_map=copied, problem=problem)
    queues = [Queue(broker, i) for broker, config in source.items() for i in range(config.queues)]
    existing = queues_of(target, target_name)
    queue_map = extend(known, queues, list(target), left=left, existing=existing)
    problem = (
        _too_many(queue_map)
        or _moved_levels(source, {queue: queue_map[queue] for queue in queues})
        or _without_lite_topics(name, target_name, source, queue_map, no_light_queues)
    )
    if problem:
        return TopicPlan(topic=name, target_topic=target_name, queue_map=copied, problem=problem)
    model = replace(next(iter(source.values())), perm=perm)
    writes = []
    for broker, count in sorted(needed_queues(queue_map).items()):
        if broker not in target:
            continue  # it is away now; its queues wait
        writable = write_queues(queue_map, source, broker)
        wanted = _wanted(target[broker].get(target_name), model, target_name, count, writable)
        if wanted is not None:
            writes.append((broker, wanted))
    copied = {source: queue for source, queue in queue_map.items() if source.broker not in forgotten}
    return TopicPlan(topic=name, target_topic=target_name, queue_map=copied, writes=writes)


def queues_of(held: Topics, name: str) -> list[Queue]:
    """All queues that a topic has on the brokers of `held`."""
    return [
        Queue(broker, queue_id)
        for broker, topics in held.items()
        if name in topics
        for queue_id in range(topics[name].queues)
    ]


def _wanted(
    existing: TopicConfig | None, model: TopicConfig, name: str, count: int, writable: int
) -> TopicConfig | None:
    """What the topic must be on a target broker; None when it is so already."""
    if existing is None:
        return replace(model, name=name, read_queues=count, write_queues=writable)
    if existing.read_queues >= count and existing.write_queues >= writable:
        return None
    return replace(
        existing,
        read_queues=max(existing.read_queues, count),
        write_queues=max(existing.write_queues, writable),
        attributes={},
    )
