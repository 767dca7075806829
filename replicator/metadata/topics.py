"""Topics: queue numbers, perm, order, filter type and attributes, as the source has them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from replicator.client.topics import READABLE, WRITABLE, TopicConfig
from replicator.metadata.action import Action, DropTopic, WriteTopic
from replicator.metadata.ledger import (
    DELETED,
    DRIFT,
    FOUND,
    REPAIRED,
    UNTAKEN,
    Entry,
    Finding,
    Key,
    Ledger,
    Planned,
    compare,
    differing,
)
from replicator.routing.plan import TopicPlan, Topics
from replicator.routing.queue_map import QueueMap, needed_queues, write_queues

__all__ = ["KIND", "GivenUpCopies", "TopicPolicy", "plan_switch", "plan_topics", "settings_of"]

KIND: Final = "topics"
#: Why a switch leaves a topic closed whose own source brokers are not known.
_AS_ELSEWHERE: Final = (
    "not opened: what it was at the source brokers of its queues is not known, and it is read-only at {brokers};"
    " a failover with open_all opens it"
)


class TopicPolicy(NamedTuple):
    """`protect`: topics stay read-only for applications; `repair`: what was changed manually at the target, or was
    there before, is put right; `deletes`: topics that the source has deleted are deleted.
    """

    protect: bool = False
    repair: bool = False
    deletes: bool = False


class GivenUpCopies(NamedTuple):
    """Where the copies of a topic are that came from forgotten source brokers."""

    target_topic: str
    brokers: Collection[str]


def plan_topics(
    plans: Iterable[TopicPlan],
    source: Topics,
    target: Topics,
    ledger: Ledger,
    *,
    missing: Callable[[str], int | None],
    made: Callable[[str], Collection[str]],
    selects: Callable[[str], bool],
    policy: TopicPolicy,
) -> Planned:
    """What is to be done at the target's brokers.

    Args:
        source: all its brokers, those too that do not answer now with what they had last.
        missing: messages of a source topic that have not arrived yet; None where that is not known.
        made: the target brokers at which the copy of a source topic was made for the route, and not there before.
        selects: whether the route copies a source topic: one that was left out since, such as one that was
            switched, is not deleted with the source's.
    """
    plans = list(plans)
    planned = Planned([], {})
    for plan in plans:
        _plan_queues(plan, target, planned)
        for broker in needed_queues(plan.queue_map) if not plan.problem else ():
            current = target.get(broker, {}).get(plan.target_topic)
            if current is not None:
                entry = ledger.get((broker, plan.target_topic))
                ours = entry is not None or broker in made(plan.topic)
                _plan_topic(
                    plan,
                    source,
                    broker,
                    current,
                    entry=entry,
                    missing=missing(plan.topic),
                    policy=policy,
                    planned=planned,
                    ours=ours,
                )
    names = {name for topics in source.values() for name in topics}
    gone = {key: entry for key, entry in ledger.items() if entry.source not in names and selects(entry.source)}
    planned.actions.extend(_deletions(gone, target, {plan.target_topic for plan in plans}, policy))
    return planned


def plan_switch(
    plans: Iterable[TopicPlan],
    source: Topics,
    target: Topics,
    *,
    given_up: Mapping[str, GivenUpCopies] = MappingProxyType({}),
    open_all: bool,
) -> Planned:
    """What applications need to use the target from now on: the perm that topics have at the source.

    What can be written already stays so: the source's topics may be read-only because it is protected by now. So
    does what can be read: of a topic that is write-only there, the copies are here to be read.

    Args:
        source: all its brokers of which anything is known. What is not, such as a broker that was dead before this
            worker's start, has the topics that the others have, and else such as can be read and written.
        given_up: copies of source brokers that were forgotten, by topics of the source: those are not known either.
        open_all: all can be read and written, those too that cannot at the source.
    """
    planned, refused = Planned([], {}), set[str]()

    def switch(topic: str, current: TopicConfig | None, broker: str, own: Mapping[str, TopicConfig]) -> None:
        if current is not None:
            elsewhere = {name: topics[topic] for name, topics in source.items() if topic in topics}
            _switch(topic, broker, current, own, elsewhere, open_all=open_all, planned=planned)

    for plan in plans:
        if plan.problem:
            refused.add(plan.topic)
            continue
        for broker in needed_queues(plan.queue_map):
            current = target.get(broker, {}).get(plan.target_topic)
            switch(plan.topic, current, broker, _configs(plan, source, broker))
    for topic, copies in given_up.items():
        for broker in sorted(copies.brokers) if topic not in refused else ():
            if (broker, copies.target_topic) not in planned.wanted:
                switch(topic, target.get(broker, {}).get(copies.target_topic), broker, {})
    return planned


def _switch(
    topic: str,
    broker: str,
    current: TopicConfig,
    own: Mapping[str, TopicConfig],
    elsewhere: Mapping[str, TopicConfig],
    *,
    open_all: bool,
    planned: Planned,
) -> None:
    """One topic at one target broker.

    Args:
        own: what the source brokers have whose queues go there.
        elsewhere: what all of them have.
    """
    configs = own or elsewhere
    perm = READABLE | WRITABLE if open_all or not configs else _together(configs)
    perm |= current.perm & (READABLE | WRITABLE)
    wanted = replace(current, perm=perm, attributes={})
    planned.wanted[broker, current.name] = (settings_of(replace(current, perm=perm)), topic)
    blocked = "" if own or perm & WRITABLE else _AS_ELSEWHERE.format(brokers=", ".join(sorted(configs)))
    if perm != current.perm or blocked:
        planned.actions.append(
            Action(
                kind=KIND,
                broker=broker,
                key=current.name,
                before={"perm": current.perm},
                after={"perm": perm},
                write=WriteTopic(wanted),
                blocked=blocked,
            )
        )


def _plan_queues(plan: TopicPlan, target: Topics, planned: Planned) -> None:
    """Topics to make, and queues to add, before messages can flow."""
    for broker, config in plan.writes:
        if broker not in target:
            continue  # it was not asked, so what it lacks is not known
        current = target.get(broker, {}).get(config.name)
        if current is None:
            before, after, wanted = None, {**_numbers(config), **settings_of(config)}, config
            planned.wanted[broker, config.name] = (settings_of(config), plan.topic)
        else:
            # The plan may be older than what the broker has by now.
            wanted = replace(
                current,
                read_queues=max(current.read_queues, config.read_queues),
                write_queues=max(current.write_queues, config.write_queues),
                attributes={},
            )
            before, after = _numbers(current), _numbers(wanted)
        if before != after:
            write = WriteTopic(wanted)
            planned.actions.append(
                Action(kind=KIND, broker=broker, key=config.name, before=before, after=after, write=write)
            )


def _numbers(config: TopicConfig) -> dict[str, int]:
    return {"read_queues": config.read_queues, "write_queues": config.write_queues}


def _plan_topic(
    plan: TopicPlan,
    source: Topics,
    broker: str,
    current: TopicConfig,
    *,
    entry: Entry | None,
    missing: int | None,
    policy: TopicPolicy,
    planned: Planned,
    ours: bool,
) -> None:
    configs = _configs(plan, source, broker)
    if not configs:
        return  # its source brokers are away, and nothing is known of it
    queue_map = {s: t for s, t in plan.queue_map.items() if t.broker == broker}
    wanted = _wanted(configs, queue_map, broker, current)
    waits, perm = _perm(configs, current, missing, entry)
    wanted = _protected(replace(wanted, perm=perm), policy)
    before, after = settings_of(current), settings_of(wanted)
    planned.wanted[broker, current.name] = (after, plan.topic)
    finding = compare(before, after, entry)
    if finding is Finding.FOUND and ours:
        finding = Finding.CHANGED

    def act(changed: TopicConfig, *, blocked: str = "", note: str = "") -> None:
        old, new = differing(before, settings_of(changed))
        write = WriteTopic(replace(changed, attributes=_news(current, changed)), _removed(current, changed))
        planned.actions.append(
            Action(
                kind=KIND,
                broker=broker,
                key=current.name,
                before=old,
                after=new,
                write=write,
                blocked=blocked,
                note=note,
            )
        )

    if finding is Finding.CHANGED:
        act(wanted)
    elif policy.repair and finding in {Finding.DRIFTED, Finding.FOUND}:
        act(wanted, note=REPAIRED)
    elif (why := _REPORTED.get(finding)) is not None:
        # Protection is asked for, whoever made the topic and whatever opened it: an older store of a broker does.
        protected = _protected(current, policy)
        if protected != current:
            act(protected)
        if settings_of(protected) != after:
            if finding is not Finding.UNTAKEN:
                del planned.wanted[broker, current.name]
            act(wanted, blocked=why)
    if waits:
        act(replace(current, perm=_together(configs)), blocked=waits)


#: What is reported, and why nothing else is done about it.
_REPORTED: Final = {Finding.DRIFTED: DRIFT, Finding.FOUND: FOUND, Finding.UNTAKEN: UNTAKEN}


def _protected(config: TopicConfig, policy: TopicPolicy) -> TopicConfig:
    return replace(config, perm=config.perm & ~WRITABLE) if policy.protect else config


def _news(current: TopicConfig, changed: TopicConfig) -> dict[str, str]:
    """Attributes to set; brokers refuse to set some of them twice."""
    return {name: value for name, value in changed.attributes.items() if current.attributes.get(name) != value}


def _removed(current: TopicConfig, changed: TopicConfig) -> tuple[str, ...]:
    return tuple(sorted(set(current.attributes) - set(changed.attributes)))


def _configs(plan: TopicPlan, source: Topics, broker: str) -> dict[str, TopicConfig]:
    """The topic on the source brokers whose queues go to `broker`; the one of the same name first."""
    brokers = sorted({s.broker for s, t in plan.queue_map.items() if t.broker == broker})
    brokers.sort(key=lambda name: name != broker)
    return {name: source[name][plan.topic] for name in brokers if plan.topic in source.get(name, {})}


def _wanted(
    configs: Mapping[str, TopicConfig], queue_map: QueueMap, broker: str, current: TopicConfig
) -> TopicConfig:
    model = next(iter(configs.values()))
    needed = needed_queues(queue_map)[broker]
    return replace(
        model,
        name=current.name,
        read_queues=max(current.read_queues, needed),
        write_queues=max(current.write_queues, write_queues(queue_map, configs, broker)),
    )


def _together(configs: Mapping[str, TopicConfig]) -> int:
    perm = 0
    for config in configs.values():
        perm |= config.perm
    return perm


def _perm(
    configs: Mapping[str, TopicConfig], current: TopicConfig, missing: int | None, entry: Entry | None
) -> tuple[str, int]:
    """Why the source's perm is not taken over now, and the perm that is to be: while it waits, that of before."""
    perm = _together(configs)
    before = current.perm if entry is None else int(entry.wanted.get("perm", current.perm))
    if not perm & READABLE:
        kind = "write-only" if perm & WRITABLE else "without any permission"
        return f"it is {kind} at the source, so its messages cannot be read; left as it is", before
    if not perm & WRITABLE and missing is None:
        return (
            "it becomes read-only when the last message has arrived, which the source cannot report now",
            before,
        )
    if not perm & WRITABLE and missing:
        return f"it becomes read-only when the last {missing:,} messages have arrived", before
    return "", perm & (READABLE | WRITABLE)


def _deletions(gone: Collection[Key], target: Topics, wanted: Collection[str], policy: TopicPolicy) -> list[Action]:
    found = []
    for broker, name in sorted(gone):
        current = target.get(broker, {}).get(name)
        if current is None or name in wanted:
            continue
        found.append(
            Action(
                kind=KIND,
                broker=broker,
                key=name,
                before=settings_of(current),
                after=None,
                write=DropTopic(name),
                blocked="" if policy.deletes else DELETED,
            )
        )
    return found


def settings_of(config: TopicConfig) -> dict[str, Any]:
    """What is compared of a topic, as JSON; its queues only ever grow, and do so with the route."""
    return {
        "perm": config.perm,
        "order": config.order,
        "filter_type": config.filter_type,
        "sys_flag": config.sys_flag,
        "attributes": dict(config.attributes),
    }
