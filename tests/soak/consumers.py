"""Where the consumer group stands at the target while faults come, and what its consumers would read there."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from replicator.client.brokers import read_settings
from replicator.client.cluster import Cluster as Client
from replicator.client.offsets import read_offsets
from replicator.errors import ReplicatorError
from tests.soak.history import History
from tests.soak.load import GROUP
from tests.soak.stage import TOPICS, Stage
from tests.support.history import Lane, Message, Place
from tests.support.offsets import offsets_of
from tests.support.traffic import connected

__all__ = ["ahead", "resumed", "unread", "watched"]

#: Seconds between two looks.
_PAUSE: Final = 1.0
_SHOWN: Final = 3


@contextlib.asynccontextmanager
async def watched(stage: Stage, history: History) -> AsyncIterator[None]:
    """Within the context the group's offsets at the target go into the history, whenever they change."""
    task = asyncio.create_task(_watch(stage, history))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _watch(stage: Stage, history: History) -> None:
    seen: dict[tuple[str, str, int], int] = {}
    while True:
        with contextlib.suppress(ReplicatorError, OSError):
            async with connected(stage.target) as client:
                while True:
                    for broker in client.brokers():
                        for lane, offset in (await _standing(client, broker)).items():
                            if seen.get(lane) != offset:
                                seen[lane] = offset
                                topic, *place = lane
                                history.add("resumes at", topic=topic, lane=place, offset=offset)
                    await asyncio.sleep(_PAUSE)
        await asyncio.sleep(_PAUSE)


async def _standing(client: Client, broker: str) -> dict[tuple[str, str, int], int]:
    """Of all queues of `broker`; none of them when another broker answers at its address."""
    master = client.master(broker)
    offsets = (await read_offsets(master)).offsets
    if (await read_settings(master)).get("brokerName") != broker:
        return {}
    return {
        (topic, broker, queue): offset
        for topic in TOPICS
        for queue, offset in offsets.get((GROUP, topic), {}).items()
    }


def ahead(entries: Iterable[Mapping[str, Any]], copies: Mapping[str, Sequence[Message]]) -> list[str]:
    """Moments at which consumers that went on at the target would have skipped what they had not consumed.

    Args:
        entries: the history.
        copies: by topic, all that is at the target in the end. A queue there has each message where it has always
            been, whatever was lost and copied again.
    """
    before = {
        (topic, message.place.broker, message.place.queue, message.place.offset + 1): message.origin
        for topic, messages in copies.items()
        for message in messages
    }
    consumed: defaultdict[tuple[str, Lane], int] = defaultdict(int)
    found = []
    for entry in entries:
        match entry:
            case {"what": "commits", "topic": topic, "broker": broker, "queue": queue, "offset": offset}:
                key = topic, Lane(broker, queue)
                consumed[key] = max(consumed[key], offset)
            case {"what": "resumes at", "topic": topic, "lane": [broker, queue], "offset": offset}:
                origin = before.get((topic, broker, queue, offset))
                if origin is not None and origin.offset >= consumed[topic, origin.lane]:
                    found.append(
                        f"{GROUP} was ahead after {entry['at']} s: in {topic} at {broker}/{queue}@{offset}, behind"
                        f" the copy of {origin}, when it had consumed up to {consumed[topic, origin.lane]} there"
                    )
    return found[:_SHOWN]


async def resumed(
    stage: Stage, history: History, topic: str, there: Sequence[Message], here: Sequence[Message]
) -> list[str]:
    """What consumers that consumed at the source and go on at the target got there, together: each message once."""
    at_source = await offsets_of(stage.source, GROUP, topic)
    at_target = await offsets_of(stage.target, GROUP, topic)
    before = [m.place for m in there if m.place.offset < at_source.get((m.place.broker, m.place.queue), 0)]
    after = [
        m.origin
        for m in here
        if m.origin is not None and m.place.offset >= at_target.get((m.place.broker, m.place.queue), 0)
    ]
    history.add("got", topic=topic, side="source", places=before)
    history.add("got", topic=topic, side="target", places=after)
    return unread(topic, [m.place for m in there], [*before, *after])


def unread(topic: str, there: Iterable[Place], got: Iterable[Place]) -> list[str]:
    """What is not once in `got`."""
    times = Counter(got)
    wrong = [f"{place} {times[place]} times" for place in there if times[place] != 1]
    return [f"{topic}: consumers got {len(wrong)} messages not once: {wrong[:_SHOWN]}"] if wrong else []
