"""What a failover now would mean: which messages are missing at the target, and which each group reads again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Final

from replicator.admin.target_losses import target_losses
from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset
from replicator.client.pull import pull
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route
from replicator.errors import ClientError
from replicator.metadata.ledger import UNTAKEN
from replicator.metadata.offsets import GroupQueue, standing
from replicator.metadata.syncer import ReplicationSnapshot
from replicator.routing.message_queue import MessageQueue

__all__ = ["group_standings", "readiness", "topic_lags"]

#: Concurrent requests.
_AT_ONCE: Final = 64
_COUNTED: Final = ("redelivered", "missed", "without_offset", "not_copied", "before_start")


async def readiness(route: Route, context: ConnectorContext) -> dict[str, Any]:
    """What blocks a failover now, and how much is not copied yet.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: the target does not answer.
    """
    route.keep(ended=False)
    topics = await topic_lags(route, context)
    look = await route.sync.look()
    groups = group_standings(look.places)
    differences = [action.shown() for action in look.steps if action.kind != "offsets"]
    reasons = [
        *_of_topics(topics),
        *await target_losses(route.sync.copy(), context),
        *_of_groups(groups),
        *_of_differences(differences),
        *map(str, look.unasked),
    ]
    return {
        "ready": not reasons,
        "reasons": reasons,
        "messages": sum(topic["messages"] for topic in topics),
        "seconds": max((topic["seconds"] for topic in topics), default=0.0),
        "topics": topics,
        "groups": groups,
        "differences": differences,
    }


# Messages.


async def topic_lags(route: Route, context: ConnectorContext, *, patience: float = inf) -> list[dict[str, Any]]:
    """Per topic how many messages of the source are not at the target, and since when.

    Args:
        patience: seconds after which no more requests are made.
    """
    problems = route.problems
    plans = list(route.topics.plans)
    source = _Source(route.sync.copy(), context, patience)
    lags = iter(
        await bounded(
            source.lag,
            [MessageQueue(plan.topic, *queue) for plan in plans for queue in plan.queue_map],
            at_once=_AT_ONCE,
        )
    )
    found = []
    for plan in plans:
        queues = list(islice(lags, len(plan.queue_map)))
        found.append(
            {
                "topic": plan.topic,
                "target": plan.target_topic,
                "messages": sum(each.messages for each in queues),
                "seconds": max((each.seconds for each in queues), default=0.0),
                "problem": problems.get(plan.topic) or next((each.problem for each in queues if each.problem), ""),
            }
        )
    return found


@dataclass(frozen=True, slots=True)
class _Lag:
    messages: int = 0
    seconds: float = 0.0
    problem: str = ""


class _Source:
    """The lag of queues, from one round of requests to the source."""

    def __init__(self, copy: ReplicationSnapshot, context: ConnectorContext, patience: float) -> None:
        self._copy = copy
        self._context = context
        self._deadline = time.monotonic() + patience
        self._unresponsive = UnresponsiveBrokers({})

    async def lag(self, queue: MessageQueue) -> _Lag:
        """The messages of a source queue that are missing at the target."""
        if time.monotonic() >= self._deadline:
            return _unknown("reading it took too long")
        try:
            return await self._unresponsive.ask(queue.broker, partial(self._ask, queue))
        except ClientError as error:
            return _unknown(str(error))

    async def _ask(self, queue: MessageQueue) -> _Lag:
        copied = self._copy.queue(queue.topic, queue.queue)
        reader = self._context.source.cluster.reader(queue.broker)
        end = await max_offset(reader, queue.topic, queue.queue_id)
        begin = await min_offset(reader, queue.topic, queue.queue_id) if copied is None else copied.position
        if end <= begin:
            return _Lag()
        oldest = await pull(reader, queue.topic, queue.queue_id, begin, count=1)
        stored = [message.store_timestamp for message in oldest.messages]
        return _Lag(end - begin, max(0.0, time.time() - stored[0] / 1000) if stored else 0.0)


def _unknown(why: str) -> _Lag:
    return _Lag(problem=f"the end of the source queue is not known: {why}")


def _of_topics(topics: Iterable[dict[str, Any]]) -> Iterable[str]:
    for topic in topics:
        if topic["problem"]:
            yield f"topic {topic['topic']}: {topic['problem']}"
        elif topic["messages"]:
            yield f"topic {topic['topic']}: {topic['messages']:,} messages are not at the target yet"


# Groups.


def group_standings(places: Iterable[GroupQueue]) -> list[dict[str, Any]]:
    """Per group and topic what it would read again and miss, summed up over queues."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for place in places:
        at_target = standing(place)
        total = found.setdefault(
            (place.group, place.topic),
            {"group": place.group, "topic": place.topic, **dict.fromkeys(_COUNTED, 0), "stopped_by": []},
        )
        if at_target.foreign is not None:
            target = place.queue.target
            where = f"offset {at_target.foreign} of {target.broker}/{target.queue_id}"
            total["stopped_by"].append(f"it has not read a foreign message at {where}")
        for name in _COUNTED:
            total[name] += getattr(at_target, name)
    return [found[key] for key in sorted(found)]


def _of_groups(groups: Iterable[dict[str, Any]]) -> Iterable[str]:
    for group in groups:
        name = f"group {group['group']} in {group['topic']}"
        if group["redelivered"]:
            why = f": {'; '.join(group['stopped_by'])}" if group["stopped_by"] else ""
            yield f"{name} would read {group['redelivered']:,} messages again{why}"
        if group["missed"]:
            yield f"{name} would miss {group['missed']:,} messages"
        if group["without_offset"]:
            yield f"{name} has no offset at the target yet, in {group['without_offset']:,} queues"


def _of_differences(differences: Iterable[dict[str, Any]]) -> Iterable[str]:
    words = {"create": "is missing", "change": "is different", "delete": "is not seen at the source"}
    for action in differences:
        if action["blocked"] == UNTAKEN:
            continue  # nothing can be done about it
        reason = f": {action['blocked']}" if action["blocked"] else ""
        what = f"{action['kind'].removesuffix('s')} {action['name']} at {action['broker']}"
        yield f"{what} {words[action['action']]}{reason}"
