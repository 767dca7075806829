"""The topic that is deleted and created again at the source, with messages on their way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence

from replicator.client.topics import TopicConfig, delete_topic, write_topic
from replicator.errors import ReplicatorError
from tests.soak.stage import BRIEF, QUEUES, Stage
from tests.support.history import Message, check
from tests.support.traffic import connected, read_topic

__all__ = ["deleted", "misplaced", "recreated", "wrong"]


async def deleted(stage: Stage) -> None:
    """A broker that is away keeps it, as it is."""
    with contextlib.suppress(ReplicatorError, OSError):
        async with connected(stage.source) as client:
            for broker in client.brokers():
                with contextlib.suppress(ReplicatorError, OSError):
                    await delete_topic(client.master(broker), BRIEF)


async def recreated(stage: Stage) -> None:
    """Returns when all brokers have it."""
    config = TopicConfig(name=BRIEF, read_queues=QUEUES, write_queues=QUEUES)
    lacking = {broker.name for broker in stage.source.brokers}
    while lacking:
        with contextlib.suppress(ReplicatorError, OSError):
            async with connected(stage.source) as client:
                for broker in sorted(lacking):
                    await write_topic(client.writer(broker), config)
                    lacking.discard(broker)
        await asyncio.sleep(0.3)


async def misplaced(stage: Stage) -> list[str]:
    """What is wrong with the copies of the topic as it is now at the source; empty when all is there."""
    return wrong(await read_topic(stage.source, BRIEF), await read_topic(stage.target, BRIEF))


def wrong(there: Sequence[Message], here: Sequence[Message]) -> list[str]:
    """What does not hold of the messages at the source and those at the target, both in their order.

    What earlier topics of that name had may be at the target or not, but nothing twice.
    """
    copies = [message for message in here if message.origin is not None]
    twice = [key for key, times in Counter(message.keys for message in copies).items() if times > 1]
    found = [f"{BRIEF}: {len(twice)} messages are there twice: {twice[:5]}"] if twice else []
    kept = {message.keys for message in there}
    verdict = check(there, [message for message in copies if message.keys in kept])
    return found if verdict.clean else [*found, f"{BRIEF}: {verdict.report()}"]
