"""Which of the messages that a source queue has are to be copied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from replicator.client.system_topics import is_group_topic
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import offsets_of
from replicator.routing import provenance
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions
from replicator.routing.parked import KINDS, renewed_waiting
from replicator.routing.state import QueueCounters

__all__ = ["select"]


def select(
    messages: Sequence[StoredMessage],
    options: RouteOptions,
    queue: MessageQueue,
    counters: QueueCounters | None = None,
) -> tuple[Sequence[StoredMessage], bool]:
    """Those of the `messages` of a source queue that are to be copied, and whether there are copies among all.

    Where there are `counters`, the others are counted in them, unless they were when they were read before.
    """
    topic = queue.topic
    if is_group_topic(topic):
        messages = provenance.renewed_retries(messages)
    elif topic in KINDS:
        messages = renewed_waiting(messages)
    copies = provenance.among(messages)
    # What goes to no cluster cannot return to it.
    kept = messages
    if copies and options.identity.target:
        kept = _may_pass(messages, options)
        _count(counters, "loop", messages, kept)
    if options.tags is not None:
        # Brokers filter by the hash of a tag; equal hashes are not equal tags.
        tagged = [m for m in kept if properties.find(m.properties, b"TAGS") in options.tags]
        _count(counters, "filter", kept, tagged)
        kept = tagged
    if options.released is not None:
        transform = None if options.transform is None else partial(options.transform, topic, queue.queue)
        others = options.released.others(topic, kept, transform)
        _count(counters, "released", kept, others)
        kept = others
    return kept, copies


def _count(
    counters: QueueCounters | None, reason: str, messages: Sequence[StoredMessage], kept: Sequence[StoredMessage]
) -> None:
    """Counts those of `messages` that are not among `kept`."""
    if counters is not None and len(kept) < len(messages):
        all_of_them, others = (
            sum(offset >= counters.skipped_to for offset in offsets_of(each)) for each in (messages, kept)
        )
        counters.skip(reason, all_of_them - others)


def _may_pass(messages: Sequence[StoredMessage], options: RouteOptions) -> list[StoredMessage]:
    """Those that have not been at the target, and that `forward` lets through."""
    target, forward = options.identity.target.encode(), options.forward == "all"
    origins = [properties.find(m.properties, provenance.ORIGIN) for m in messages]
    return [
        m
        for m, origin in zip(messages, origins, strict=True)
        if origin is None or (forward and origin != target and not provenance.came_through(m.properties, target))
    ]
