"""What is to be said of the topics that a route would copy, by what both clusters have of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from replicator.client.topics import READABLE, TopicConfig
from replicator.observe.counted import counted
from replicator.operate.doctor.finding import Finding, bad, good, odd
from replicator.routing.plan import TopicPlan, Topics
from replicator.settings import RouteSettings

__all__ = ["judge_topics"]

_CHECK: Final = "topics"
_PLAIN: Final = re.compile(r"[%a-zA-Z0-9_-]+")
#: The default of `message.type` (`TopicAttributes`).
_NORMAL: Final = "NORMAL"


def judge_topics(
    plans: Sequence[TopicPlan],
    source: Topics,
    target: Topics,
    route: RouteSettings,
    *,
    typed: tuple[Collection[str], Collection[str]],
    reserved: Collection[str],
) -> Iterator[Finding]:
    """Of each topic that does not simply have to be created.

    Args:
        source, target: per broker its topics.
        typed: brokers of the source and of the target whose topics have kinds: those of 5.x.
        reserved: names of the target's cluster and brokers, which brokers use as topics of their own.
    """
    for plan in plans:
        if plan.problem:
            yield bad(_CHECK, plan.topic, plan.problem, "leave it out with --exclude-topics")
    clear = [plan for plan in plans if not plan.problem]
    yield from _selection(clear, plans, route)
    yield from _renamed(clear)
    for plan in clear:
        if plan.target_topic in reserved:
            message = f"the target's brokers have a topic of their own called {plan.target_topic}"
            yield bad(_CHECK, plan.topic, message, "give the copy another name with --rename")
        yield from _numbers(plan, target)
        yield from _kinds(plan, source, target, typed)
        yield from _perms(plan, source, target)


def _selection(clear: Sequence[TopicPlan], plans: Sequence[TopicPlan], route: RouteSettings) -> Iterator[Finding]:
    named = {plan.topic for plan in plans}
    for pattern in route.topics:
        if _PLAIN.fullmatch(pattern) and pattern not in named:
            advice = "correct --topics; or create it: the route copies it from then on"
            yield odd(_CHECK, pattern, "the source has no such topic, or it is excluded", advice)
    if not clear:
        yield odd(_CHECK, "selection", "no topic of the source is selected", "see --topics and --exclude-topics")
        return
    queues = sum(len(plan.queue_map) for plan in clear)
    new = sum(1 for plan in clear if plan.writes)
    what = f"{counted(len(clear), 'topic')} with {counted(queues, 'queue')}"
    yield good(_CHECK, "selection", f"{what}; {new} to create or enlarge")


def _renamed(clear: Sequence[TopicPlan]) -> Iterator[Finding]:
    renamed = [plan for plan in clear if plan.topic != plan.target_topic]
    if renamed:
        message = f"{len(renamed)} topics get other names, as {renamed[0].topic} → {renamed[0].target_topic}"
        yield good(_CHECK, "rename", message)


def _numbers(plan: TopicPlan, target: Topics) -> Iterator[Finding]:
    for broker, wanted in plan.writes:
        current = target.get(broker, {}).get(plan.target_topic)
        if current is not None and wanted.queues > current.queues:
            yield odd(
                "target topic",
                plan.target_topic,
                f"it has {counted(current.queues, 'queue')} at {broker}, and the copy needs {wanted.queues}: the"
                " route adds them, and consumers there rebalance",
                "nothing; or choose another name with --rename, or delete that topic if nobody uses it",
            )


def _kinds(
    plan: TopicPlan, source: Topics, target: Topics, typed: tuple[Collection[str], Collection[str]]
) -> Iterator[Finding]:
    """Proxies of 5.x refuse messages of another kind than the topic's; its queues count in their own way."""
    ours = {broker: topics[plan.topic] for broker, topics in source.items() if plan.topic in topics}
    types = {_type(config) for broker, config in ours.items() if broker in typed[0]}
    for broker, topics in target.items():
        held = topics.get(plan.target_topic)
        if held is None or broker not in typed[1]:
            continue
        if types and _type(held) not in types:
            wanted = ", ".join(sorted(types))
            yield odd(
                "target topic",
                plan.target_topic,
                f"it is of another kind at {broker}: message.type is {_type(held)}, and {wanted} at the source:"
                " after a switch producers of 5.x are refused",
                "delete that topic if nobody uses it, choose another name with --rename, or --on-drift repair",
            )
        for name, value in (("queue.type", "BatchCQ"), ("cleanup.policy", "COMPACTION")):
            if held.attributes.get(name) == value:
                message = f"it has {name}={value} at {broker}: its offsets do not count messages"
                advice = "delete that topic if nobody uses it, or choose another name with --rename"
                yield bad("target topic", plan.target_topic, message, advice)


def _type(config: TopicConfig) -> str:
    return config.attributes.get("message.type", _NORMAL)


def _perms(plan: TopicPlan, source: Topics, target: Topics) -> Iterator[Finding]:
    closed = _unreadable(plan.topic, source)
    if closed:
        message = f"it cannot be read at {', '.join(closed)} (perm): nothing of it is copied from there"
        yield odd("source topic", plan.topic, message, "make it readable, or leave it out with --exclude-topics")
    closed = _unreadable(plan.target_topic, target)
    if closed:
        message = f"it cannot be read at {', '.join(closed)} (perm): what has arrived there cannot be seen"
        yield bad("target topic", plan.target_topic, message, "make it readable there")


def _unreadable(topic: str, side: Mapping[str, Mapping[str, TopicConfig]]) -> list[str]:
    return [name for name, topics in side.items() if topic in topics and not topics[topic].perm & READABLE]
