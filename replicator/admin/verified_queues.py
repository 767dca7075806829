"""How far the audit has verified a route's copies at the target, and what it has found to differ there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.brokers import min_offset
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route
from replicator.errors import ReplicatorError
from replicator.observe.counted import counted
from replicator.routing.queue_map import Queue
from replicator.routing.task_id import TaskId
from replicator.state.queue_records import offset_of

__all__ = ["differing", "verified_topics"]

#: Queues whose targets are asked concurrently: those with differences.
_AT_ONCE: Final = 64
#: Differences that are named of each topic.
_NAMED: Final = 5


class _Audited(NamedTuple):
    """A queue, and what its owner has published of its audit."""

    source: Queue
    target: Queue
    position: int | None
    audit: dict[str, Any]


async def verified_topics(route: Route, context: ConnectorContext) -> list[dict[str, Any]]:
    """Per topic how far each queue is verified, and the differences that the target still has.

    A difference counts until retention at the target has deleted the last one that was found in its queue.
    """
    unresponsive, found = UnresponsiveBrokers({}), []
    for plan in route.topics.of_users:
        queues = [_audited(route, context, plan.topic, *pair) for pair in sorted(plan.queue_map.items())]
        differ = [queue for queue in queues if queue.audit.get("differences")]
        still = partial(_still_there, unresponsive, context, plan.target_topic)
        kept = [
            queue
            for queue, is_there in zip(differ, await bounded(still, differ, at_once=_AT_ONCE), strict=True)
            if is_there
        ]
        found.append(
            {
                "topic": plan.topic,
                "not_verified": sum(_not_verified(queue) for queue in queues),
                "differences": _added(queue.audit["differences"] for queue in kept),
                "latest": [each for queue in kept for each in _latest(queue)][:_NAMED],
                "queues": [
                    {
                        "broker": queue.source.broker,
                        "queue": queue.source.queue_id,
                        "position": queue.position,
                        "verified_to": queue.audit.get("to"),
                    }
                    for queue in queues
                ],
            }
        )
    return found


def differing(topics: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Why topics with differences are not ready for a switch."""
    for topic in topics:
        count = sum(topic["differences"].values())
        if count:
            kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(topic["differences"].items()))
            are = "is not as it was" if count == 1 else "are not as they were"
            what = f"{counted(count, 'message')} at the target {are} sent ({kinds})"
            yield f"topic {topic['topic']}: {what}{_such_as(topic)}"


def _such_as(topic: dict[str, Any]) -> str:
    """The last difference that is named."""
    for each in topic["latest"]:
        return f", such as source offset {each['source']} at {each['queue']}/{each['target']}"
    return ""


def _audited(route: Route, context: ConnectorContext, topic: str, source: Queue, target: Queue) -> _Audited:
    known = context.store.progress(route.name, str(TaskId(route.name, topic, source)))[0]
    return _Audited(source, target, offset_of(known), (known or {}).get("audit") or {})


def _not_verified(queue: _Audited) -> int:
    verified = queue.audit.get("to")
    return 0 if verified is None or queue.position is None else max(0, queue.position - verified)


def _latest(queue: _Audited) -> Iterator[dict[str, Any]]:
    for kind, source, target, detail in reversed(queue.audit.get("latest", [])):
        yield {"kind": kind, "source": source, "queue": str(queue.target), "target": target, "detail": detail}


def _added(many: Iterable[dict[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in many:
        found.update(each)
    return dict(found)


async def _still_there(
    unresponsive: UnresponsiveBrokers, context: ConnectorContext, topic: str, queue: _Audited
) -> bool:
    """Whether the target may still have the last difference; also where that cannot be asked."""
    targets: list[int] = [target for _, _, target, _ in queue.audit.get("latest", []) if target is not None]
    if not targets:
        return True
    broker, queue_id = queue.target

    async def oldest() -> int:
        return await min_offset(context.target.cluster.master(broker), topic, queue_id)

    try:
        first: int = await unresponsive.ask(broker, oldest)
    except ReplicatorError:
        return True
    return first <= max(targets)
