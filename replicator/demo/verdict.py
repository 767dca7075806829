"""A verdict on the copied orders, from reading both topics completely.

It uses neither the replicator's counters nor its files: the provenance of each message at the target
(`__RPL_SOURCE`) names its source message, and both are compared.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field

from replicator.client.queue_range import read_range
from replicator.client.topics import read_topics
from replicator.command_output import Report
from replicator.demo.clusters import connected
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue

__all__ = ["DemoReport", "Judge", "Verdict", "judge"]

#: Prefixes of properties that brokers or the replicator add to a message; the rest are the application's.
_ADDED = tuple(name.decode() for name in (*properties.BROKER_MADE, provenance.PREFIX))


@dataclass(slots=True)
class Verdict:
    """`copied` counts source messages that have a copy; `foreign` counts messages that are not copies of any."""

    sources: int = 0
    copied: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    changed: int = 0
    foreign: int = 0

    @property
    def clean(self) -> bool:
        """Every message once, in order, unchanged, and nothing else."""
        return not (self.lost or self.duplicated or self.out_of_order or self.changed or self.foreign)


class DemoReport(Report):
    """The verdict, and what the demo's programs counted; all in messages."""

    clean: Annotated[bool, Field(description="every message once, in order, unchanged, and nothing else")]
    sources: Annotated[int, Field(description="messages in the source topic")]
    copied: Annotated[int, Field(description="those of them that have a copy")]
    lost: int
    duplicated: int
    out_of_order: int
    changed: int
    foreign: Annotated[int, Field(description="messages at the target that are not copies")]
    produced: Annotated[int, Field(description="acknowledged to the producer")]
    refused: Annotated[int, Field(description="refused by the source cluster")]
    seen: Annotated[int, Field(description="received by the consumer at the target")]

    @classmethod
    def of(cls, verdict: Verdict, *, produced: int, refused: int, seen: int) -> DemoReport:
        return cls(clean=verdict.clean, **asdict(verdict), produced=produced, refused=refused, seen=seen)


class _Queue:
    """A source queue: its messages, and which of them have copies."""

    def __init__(self) -> None:
        self.first = 0
        self.prints = array("q")
        self.found = bytearray()
        self.latest = -1
        self.target: MessageQueue | None = None


class Judge:
    """Takes all of the source, then all of the target, each queue by queue in its order."""

    def __init__(self) -> None:
        self._queues: dict[Queue, _Queue] = {}
        self._verdict = Verdict()

    def take_source(self, source: MessageQueue, message: StoredMessage) -> None:
        queue = self._queues.setdefault(source.queue, _Queue())
        if not queue.prints:
            queue.first = message.queue_offset
        queue.prints.append(_print(message))
        queue.found.append(0)
        self._verdict.sources += 1

    def take_target(self, target: MessageQueue, message: StoredMessage) -> None:
        copy = provenance.read(message.properties)
        queue = self._queues.get(Queue(copy.broker, copy.queue_id)) if copy else None
        index = copy.offset - queue.first if copy and queue else -1
        if queue is None or not 0 <= index < len(queue.prints):
            self._verdict.foreign += 1
        elif queue.found[index]:
            self._verdict.duplicated += 1
        else:
            queue.found[index] = 1
            queue.target = queue.target or target
            # A copy in another queue than the copies before it is out of order too.
            self._verdict.out_of_order += index < queue.latest or target != queue.target
            queue.latest = max(queue.latest, index)
            self._verdict.copied += 1
            self._verdict.changed += queue.prints[index] != _print(message)

    def verdict(self) -> Verdict:
        self._verdict.lost = self._verdict.sources - self._verdict.copied
        return self._verdict


def _print(message: StoredMessage) -> int:
    found = properties.decode(message.properties).items()
    own = frozenset((name, value) for name, value in found if not name.startswith(_ADDED))
    return hash((message.flag, message.body, own))


async def judge(source: str, target: str, *, topic: str) -> Verdict:
    """Reads the topic on both clusters, given by their name servers.

    Raises:
        ClientError: it could not be read.
    """
    result = Judge()
    async for queue, message in _read(source, topic):
        result.take_source(queue, message)
    async for queue, message in _read(target, topic):
        result.take_target(queue, message)
    return result.verdict()


async def _read(namesrv: str, topic: str) -> AsyncIterator[tuple[MessageQueue, StoredMessage]]:
    async with connected(namesrv) as client:
        for broker in client.brokers():
            config = (await read_topics(client.master(broker))).topics.get(topic)
            for queue_id in range(config.queues if config else 0):
                async for message in read_range(client.master(broker), topic, queue_id, 0):
                    yield MessageQueue(topic, broker, queue_id), message
