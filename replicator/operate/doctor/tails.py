"""How far the copy of each queue is, what others have written behind it, and what the source will soon delete."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset
from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull
from replicator.client.queue_range import read_range
from replicator.connector.context import ConnectorContext
from replicator.errors import ClientError, ConfigError, ProtocolError
from replicator.observe.excerpt import excerpt
from replicator.operate.doctor.facts import Facts
from replicator.operate.doctor.finding import Finding, bad, good, odd, unchecked
from replicator.plugins.route_options import route_options
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.faults import TransformRefused
from replicator.routing.message_filter import select
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings

__all__ = ["Tail", "examine_tails", "judge_tails"]

#: Queues that are read at a time: each takes some pulls, on both sides, beside what the brokers have to do anyway.
_AT_ONCE: Final = 16
#: Messages at the end of a target queue that are read.
_LOOK_BACK: Final = 32
#: Queues that are looked at: some requests each.
_MOST: Final = 2000
#: Messages of the source that are asked for, pull by pull, until one is found that the route copies.
_AHEAD: Final = (1, *[32] * 7)
#: Share of the retention after which the oldest message that is not copied is in danger.
_DANGER: Final = 0.75
_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The end of a target queue, and where the source queue `source` stands against it; times in ms.

    Of the last messages `foreign` are not copies, the newest of them stored at `foreign_at`, and some are copies
    from the clusters `others`. `copied` is the source offset of the last copy from `source`, None where none is to
    be seen; `next_at` when the next message to copy was stored at the source, None where none is to be seen.
    `left_out` says why the route may leave out what is behind the last copy; empty: it copies all.
    """

    source: MessageQueue
    target_topic: str
    source_min: int = 0
    copied: int | None = None
    next_at: int | None = None
    foreign: int = 0
    foreign_at: int = 0
    others: frozenset[str] = frozenset()
    left_out: str = ""


async def examine_tails(
    plans: Sequence[TopicPlan], context: ConnectorContext, route: RouteSettings, source: Mapping[str, Facts]
) -> list[Finding]:
    """Reads the ends of the target's queues; `source` is by its brokers' names."""
    options = _options(route, context.identity)
    filters = _filters(route)
    places = [(plan, *pair) for plan in plans for pair in plan.queue_map.items()]
    found = await bounded(lambda place: _read(*place, context, options, filters), places[:_MOST], at_once=_AT_ONCE)
    tails = [each for each in found if isinstance(each, Tail)]
    failed = {each[0]: each for each in found if isinstance(each, tuple)}
    findings = [*judge_tails(tails, context.identity, source, now=time.time())]
    findings += [
        unchecked("target topic", topic, f"what is in it, because {why}") for topic, why in failed.values()
    ]
    if len(places) > _MOST:
        message = f"what is in {len(places) - _MOST:,} further queues: it would take long"
        findings.append(unchecked("target topic", "all others", message, "name less with --topics"))
    return findings


def _options(route: RouteSettings, identity: Identity) -> RouteOptions:
    try:
        return route_options(route, identity, settle_timeout=0.0)
    except ConfigError:  # a transform that cannot be had, which `examine_machine` tells of
        return route_options(route.model_copy(update={"transforms": ()}), identity, settle_timeout=0.0)


def _filters(route: RouteSettings) -> str:
    """What makes the route leave messages out, whoever wrote them; empty if nothing does."""
    set_to = {
        "tags": bool(route.tags),
        "sql": bool(route.sql),
        "transforms": bool(route.transforms),
        "forward=local": route.forward == "local",
    }
    named = [name for name, is_set in set_to.items() if is_set]
    return f"the route leaves messages out ({', '.join(named)})" if named else ""


async def _read(
    plan: TopicPlan, source: Queue, target: Queue, context: ConnectorContext, options: RouteOptions, filters: str
) -> Tail | tuple[str, str]:
    """The tail of a target queue, or its topic and why it cannot be read."""
    here = MessageQueue(plan.topic, *source)
    try:
        reader = context.source.cluster.reader(source.broker)
        least = await min_offset(reader, plan.topic, source.queue_id)
        held = context.target.topics.get(target.broker, {}).get(plan.target_topic)
        if held is None or target.queue_id >= held.queues:
            return Tail(source=here, target_topic=plan.target_topic, source_min=least)
        master = context.target.cluster.master(target.broker)
        end = await max_offset(master, plan.target_topic, target.queue_id)
        copied, foreign, foreign_at, others = None, 0, 0, set[str]()
        async for message in read_range(master, plan.target_topic, target.queue_id, max(0, end - _LOOK_BACK), end):
            copy = provenance.of(message, plan.target_topic)
            if copy is None:
                foreign, foreign_at = foreign + 1, max(foreign_at, message.store_timestamp)
            elif copy.cluster != context.identity.source:
                others.add(copy.cluster)
            elif Queue(copy.broker, copy.queue_id) == source:
                copied = copy.offset
        next_at, left_out = None, filters
        if copied is not None:
            next_at = await _next_at(reader, here, max(least, copied + 1), options)
            if least > copied + 1 and not left_out:
                left_out = await _came_back(reader, here, least, options, foreign=foreign)
    except (ClientError, ProtocolError) as error:
        return plan.target_topic, error.message
    return Tail(
        source=here,
        target_topic=plan.target_topic,
        source_min=least,
        copied=copied,
        next_at=next_at,
        foreign=foreign,
        foreign_at=foreign_at,
        others=frozenset(others),
        left_out=left_out,
    )


async def _next_at(reader: Endpoint, queue: MessageQueue, offset: int, options: RouteOptions) -> int | None:
    """When the next message to copy, from `offset` on, was stored; None: there is none, or none soon."""
    for count in _AHEAD:
        pulled = await pull(
            reader, queue.topic, queue.queue_id, offset, count=count, subscription=options.subscription
        )
        for message in select(pulled.messages, options, queue)[0]:
            if _passes(message, queue, options):
                return message.store_timestamp
        if not offset < pulled.next_offset < pulled.max_offset:
            return None
        offset = pulled.next_offset
    return None


def _passes(message: StoredMessage, queue: MessageQueue, options: RouteOptions) -> bool:
    """Whether the transforms leave `message` in."""
    if options.transform is None:
        return True
    try:
        return options.transform(queue.topic, Queue(queue.broker, queue.queue_id), message) is not None
    except TransformRefused:
        return True  # `on_error` decides; it may be waited for


async def _came_back(
    reader: Endpoint, queue: MessageQueue, least: int, options: RouteOptions, *, foreign: int
) -> str:
    """Why what is deleted before `least` may have come from the target, and was not to go back; else empty."""
    end = await max_offset(reader, queue.topic, queue.queue_id)
    start = max(least, end - _LOOK_BACK)
    there = [message async for message in read_range(reader, queue.topic, queue.queue_id, start, end)]
    if len(select(there, options, queue)[0]) < len(there):
        return "the source has copies that came from the target"
    # Nothing is left to look at; on one of two opposite routes the target has messages of its own.
    return "they may have come from the target, which has messages of its own" if foreign and not there else ""


def judge_tails(
    tails: Sequence[Tail], identity: Identity, source: Mapping[str, Facts], *, now: float
) -> Iterator[Finding]:
    """Of what was read at `now` (seconds since 1970)."""
    by_topic: dict[str, list[Tail]] = defaultdict(list)
    by_broker: dict[str, list[Tail]] = defaultdict(list)
    for tail in tails:
        by_topic[tail.target_topic].append(tail)
        by_broker[tail.source.broker].append(tail)
    clean = True
    for topic, held in sorted(by_topic.items()):
        for finding in _strangers(topic, held, identity, now):
            clean = False
            yield finding
    if tails and clean:
        yield good("target topic", "all", "the last messages are copies of this route, or there are none")
    for broker, read in sorted(by_broker.items()):
        yield from _deleted(read)
        yield from _retention(broker, read, source, now)


def _strangers(topic: str, tails: Sequence[Tail], identity: Identity, now: float) -> Iterator[Finding]:
    """Messages that this route has not written."""
    if foreign := sum(tail.foreign for tail in tails):
        newest = now - max(tail.foreign_at for tail in tails) / 1000
        yield odd(
            "target topic",
            topic,
            f"others have written to it, last {_ago(newest)} ago: {foreign} of the last messages of its queues are"
            " not copies; they stay, and are counted as foreign",
            "the line `producers` below, which --quiet leaves out, names who is connected there: stop those that"
            " send to it until the switch, or choose another name with --rename; between two opposite routes it is"
            " as it should be",
        )
    others = {cluster for tail in tails for cluster in tail.others} - {identity.target}
    if others:
        yield odd(
            "target topic",
            topic,
            f"it has copies from {', '.join(sorted(others))} too, and the route is from {identity.source}",
            "if that is the same cluster under another id, set --source-id to it; if not, choose another name with"
            " --rename={source}-{topic}",
        )


def _deleted(tails: Sequence[Tail]) -> Iterator[Finding]:
    """What the source no longer has behind the last copies: lost, unless the route leaves it out."""
    in_doubt: dict[tuple[str, str], list[Tail]] = defaultdict(list)
    for tail in tails:
        if not _missing(tail):
            continue
        if tail.left_out:
            in_doubt[tail.source.topic, tail.left_out].append(tail)
            continue
        yield bad(
            "source topic",
            str(tail.source),
            f"{_missing(tail):,} messages were deleted there before they were copied",
            "raise fileReservedTime; on_gap decides whether the route goes on (skip) or stops (fail)",
        )
    for (topic, why), held in sorted(in_doubt.items()):
        yield unchecked(
            "source topic",
            topic,
            f"whether {sum(map(_missing, held)):,} messages that were deleted behind the last copies"
            f" ({excerpt(str(tail.source) for tail in held)}) were left out or lost, because {why}",
            "a worker that runs counts what it lost as gaps: replicator lag",
        )


def _missing(tail: Tail) -> int:
    """Messages behind the last copy that the source no longer has."""
    return 0 if tail.copied is None else max(0, tail.source_min - tail.copied - 1)


def _retention(broker: str, tails: Sequence[Tail], source: Mapping[str, Facts], now: float) -> Iterator[Finding]:
    """How close the copy is to what the source deletes."""
    facts = source.get(broker)
    hours = 0 if facts is None else facts.number("fileReservedTime", 72)
    begun = [tail for tail in tails if tail.copied is not None]
    if hours <= 0 or not begun:
        return  # what is deleted before the first copy is not lost by the route
    oldest = min((tail for tail in begun if tail.next_at is not None), key=lambda t: t.next_at or 0, default=None)
    if oldest is None:
        what = "copied, or left out" if any(tail.left_out for tail in begun) else "copied"
        yield good("retention", broker, f"it keeps messages for {hours} h, and all that are seen are {what}")
        return
    age = now - (oldest.next_at or 0) / 1000
    message = f"it keeps messages for {hours} h, and the oldest one to copy is {_ago(age)} old ({oldest.source})"
    if age > _DANGER * hours * _HOUR:
        yield odd("retention", broker, message, "raise fileReservedTime there until the route has caught up")
    else:
        yield good("retention", broker, message)


def _ago(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.0f} h"
