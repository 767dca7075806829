"""Checks that the target still has what it has acknowledged, by looking up the last copy of each queue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.pull import pull
from replicator.client.topics import is_missing
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.connector.context import ConnectorContext
from replicator.errors import BrokerRefused, ReplicatorError
from replicator.metadata.offsets import CopiedQueue
from replicator.metadata.syncer import ReplicationSnapshot
from replicator.routing import provenance
from replicator.routing.message_queue import MessageQueue

__all__ = ["TARGET_LOSS", "target_losses"]

#: How each problem begins that is told here.
TARGET_LOSS: Final = ("queue ", "queues of ")
#: Topics that are named where queues of many cannot be asked about.
_NAMED: Final = 3

#: Queues that are checked concurrently.
_AT_ONCE: Final = 64


async def target_losses(copy: ReplicationSnapshot, context: ConnectorContext) -> list[str]:
    """The problem of each queue whose last copy the target lacks, and of each broker that does not answer."""
    unresponsive = UnresponsiveBrokers({})
    unknown: dict[str, list[tuple[MessageQueue, str]]] = {}
    queues = [
        (MessageQueue(plan.topic, *queue), copied)
        for plan in copy.plans
        for queue in plan.queue_map
        if (copied := copy.queue(plan.topic, queue)) is not None and copied.offsets.last is not None
    ]

    async def one(each: tuple[MessageQueue, CopiedQueue]) -> str:
        queue, copied = each
        try:
            return await unresponsive.ask(copied.target.broker, partial(_find_loss, queue, copied, context))
        except ReplicatorError as error:
            unknown.setdefault(copied.target.broker, []).append((queue, error.message))
            return ""

    lost = [problem for problem in await bounded(one, queues, at_once=_AT_ONCE) if problem]
    return [*lost, *(_unknown(broker, asked) for broker, asked in unknown.items())]


def _unknown(broker: str, asked: Sequence[tuple[MessageQueue, str]]) -> str:
    """One line for all queues of a target broker; the first of them was asked about, and the others given up."""
    (first, why), topics = asked[0], sorted({queue.topic for queue, _ in asked})
    what = f"queue {first}"
    if len(asked) > 1:
        more = [f"{len(topics) - _NAMED} more topics"] if len(topics) > _NAMED else []
        what = f"queues of {', '.join([*topics[:_NAMED], *more])} at {broker}, {len(asked)} of them"
    return f"{what}: whether the target still has what was copied is not known: {why}"


async def _find_loss(queue: MessageQueue, copied: CopiedQueue, context: ConnectorContext) -> str:
    lost = f"queue {queue}: the target has lost messages that it had acknowledged"
    try:
        if await _has_last(queue, copied, context):
            return ""
    except BrokerRefused as error:
        if not is_missing(error):
            raise
        return f"{lost}: there is no topic {copied.target_topic} at {copied.target.broker}"
    # A message becomes visible in its queue some time after the broker has acknowledged it.
    await context.barrier.caught_up(context.target.cluster.master(copied.target.broker))
    if await _has_last(queue, copied, context):
        return ""
    assert copied.offsets.last is not None  # noqa: S101 - asked by the caller
    return (
        f"{lost}: source offset {copied.offsets.last[0]} is not at {copied.target_topic}/{copied.target.broker}/"
        f"{copied.target.queue_id}/{copied.offsets.last[1]}"
    )


async def _has_last(queue: MessageQueue, copied: CopiedQueue, context: ConnectorContext) -> bool:
    assert copied.offsets.last is not None  # noqa: S101 - asked by the caller
    source, target = copied.offsets.last
    broker = context.target.cluster.master(copied.target.broker)
    pulled = await pull(broker, copied.target_topic, copied.target.queue_id, target, count=1)
    if pulled.min_offset > target:
        return True  # retention has deleted it
    return any(_is(provenance.of(message, copied.target_topic), queue, source) for message in pulled.messages[:1])


def _is(found: provenance.Provenance | None, queue: MessageQueue, offset: int) -> bool:
    return found is not None and (found.broker, found.queue_id, found.offset) == (
        queue.broker,
        queue.queue_id,
        offset,
    )
