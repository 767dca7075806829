"""The end of a round: the target is switched to, with messages on their way and applications that wait there."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from replicator.client.cluster import Cluster as Client
from replicator.client.topics import WRITABLE, TopicConfig, read_topics
from replicator.errors import ReplicatorError
from replicator.routing import provenance
from tests.soak.brief import misplaced
from tests.soak.consumers import resumed
from tests.soak.history import History
from tests.soak.load import GROUP
from tests.soak.stage import BRIEF, TOPICS, Stage, loaded
from tests.support.history import check
from tests.support.readiness import asked, exact
from tests.support.traffic import connected, raw_topic, read_topic, send

__all__ = ["fail_over"]

#: Messages per second that are copied meanwhile, so that some are left when the failover begins.
_SLOW: Final = 150
#: Seconds in which messages pile up, and in which they must have been copied.
_PILES_UP, _DRAINS = 3.0, 60.0


async def fail_over(stage: Stage, history: History, seed: str) -> list[str]:
    """What does not hold when the target has been switched to."""
    worker = stage.workers[0]
    await worker.set_rates(messages=_SLOW)
    async with loaded(stage, history, f"{seed}/failover"):
        await asyncio.sleep(_PILES_UP)
    application = _Application(stage)
    waiting = asyncio.create_task(application.run())
    report = await asked(worker, "POST", "failover", {"drain_timeout": _DRAINS})
    history.add("failover", report=report)
    await application.has_sent()
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    found = await misplaced(stage)
    if not (report["drained"] and report["stopped"] and report["topics_opened"] == sorted((*TOPICS, BRIEF))):
        found.append(f"the failover says {report}")
    if report["problems"]:
        found.append(f"the failover had problems: {report['problems']}")
    for topic in TOPICS:
        there, here = await read_topic(stage.source, topic), await read_topic(stage.target, topic)
        verdict = check(there, [message for message in here if message.origin is not None])
        if not verdict.clean:
            found.append(f"{topic} after the failover: {verdict.report()}")
        found += await resumed(stage, history, topic, there, here)
        found += await _mixed(stage, topic)
        try:
            await exact(stage.source, stage.target, GROUP, topic)
        except AssertionError as error:
            found.append(f"{GROUP} after the failover: {error}")
    return found


async def _mixed(stage: Stage, topic: str) -> list[str]:
    """Queues in which a copy stands behind what applications have sent: they were let in too early."""
    found = []
    for (broker, queue), messages in (await raw_topic(stage.target, topic)).items():
        own = [m.queue_offset for m in messages if provenance.read(m.properties) is None]
        copies = [m.queue_offset for m in messages if provenance.read(m.properties) is not None]
        if own and copies and max(copies) > min(own):
            found.append(
                f"{topic} was opened early: {broker}/{queue} has a copy at {max(copies)}, behind {min(own)}"
            )
    return found


class _Application:
    """Sends to all queues at the target whose topic can be written to, as clients do that go by its perm."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._sent = {topic: asyncio.Event() for topic in TOPICS}

    async def has_sent(self) -> None:
        """Returns when it could send to all topics.

        Raises:
            TimeoutError: it could not in ten seconds.
        """
        async with asyncio.timeout(10):
            for sent in self._sent.values():
                await sent.wait()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            with contextlib.suppress(ReplicatorError, OSError):
                async with connected(self._stage.target) as client:
                    while True:
                        for broker in client.brokers():
                            topics = (await read_topics(client.master(broker))).topics
                            for topic in TOPICS:
                                if topics[topic].perm & WRITABLE:
                                    await self._send(client, broker, topics[topic])
                        await asyncio.sleep(0.05)
            await asyncio.sleep(0.1)

    async def _send(self, client: Client, broker: str, topic: TopicConfig) -> None:
        for queue in range(topic.write_queues):
            await send(client, broker, topic.name, queue, [(b"own", {"KEYS": "own"})])
        self._sent[topic.name].set()
