"""What is in the brokers of a source and is not copied yet, or not at all: delayed, half, retried, given up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import DEFAULT_DELAYS, max_offset, min_offset, read_settings
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.offsets import OffsetTable, read_offsets
from replicator.client.pending import delivered_levels, timer_counts
from replicator.client.pull import pull
from replicator.client.system_topics import (
    DEAD_LETTER_PREFIX,
    DECIDED_TOPIC,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
)
from replicator.client.topics import TopicConfig
from replicator.client.unresponsive import UnresponsiveBrokers
from replicator.errors import BrokerRefused, ReplicatorError
from replicator.protocol import properties
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.ranges.reader import RangeReader
from replicator.routing.queue_map import Queue

__all__ = ["UNTOLD", "Pending", "pending_messages"]

#: Seconds in which messages are read to be counted by topic.
_COUNTING: Final = 5.0
_AT_ONCE: Final = 8

#: Of a source of which only a Proxy is reached.
UNTOLD: Final = "what waits at the source is not known: a Proxy does not tell of delayed, timer and half messages"

#: A setting of brokers from 5.5 on, which keep half messages elsewhere then.
_IN_ROCKSDB: Final = "transRocksDBEnable"

#: The group as which a broker keeps how far it has checked transactions.
_CHECKER: Final = "CID_RMQ_SYS_TRANS"


@dataclass(slots=True)
class Pending:
    """Messages by topic and kind: `delay` (levels), `timer`, `transaction` (half messages), `retry`, `dead-letter`.

    `uncounted` are messages of any topic that there was no time to read, or that the broker lets nobody read.
    `problems` name what is not known.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    uncounted: int = 0
    problems: list[str] = field(default_factory=list)

    def shown(self, parking: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
        """For people and scripts; `parking` says of each kind that can be parked how far that is."""
        return {
            "messages": [
                {"topic": topic, "kind": kind, "messages": count, "parked": parking.get(kind)}
                for (topic, kind), count in sorted(self.counts.items())
                if count > 0
            ],
            "uncounted": self.uncounted,
            "problems": self.problems,
        }


async def pending_messages(
    cluster: Cluster,
    brokers: Iterable[str],
    copies: Callable[[str], bool],
    *,
    of_groups: Callable[[str], bool] = lambda _: False,
    topics: Mapping[str, Mapping[str, TopicConfig]] = MappingProxyType({}),
) -> Pending:
    """What waits at `brokers` for topics that `copies` is true of.

    Args:
        copies: whether a topic is copied; it is asked of topics, and of groups' retry and dead-letter topics.
        of_groups: whether such a topic is one of a synced group; what it holds is counted if it is not copied.
        topics: those of each broker.
    """
    if cluster.is_proxy:
        return Pending(problems=[UNTOLD])
    counting = _Counting(cluster, copies, of_groups, topics, asyncio.get_running_loop().time() + _COUNTING)
    await bounded(counting.count_at, sorted(brokers), at_once=_AT_ONCE)
    counting.found.problems.sort()
    return counting.found


class _Counting:
    def __init__(
        self,
        cluster: Cluster,
        copies: Callable[[str], bool],
        of_groups: Callable[[str], bool],
        topics: Mapping[str, Mapping[str, TopicConfig]],
        until: float,
    ) -> None:
        self.found = Pending()
        self._cluster = cluster
        self._copies = copies
        self._of_groups = of_groups
        self._topics = topics
        self._until = until
        self._offsets: dict[str, OffsetTable] = {}
        self._settings: dict[str, Mapping[str, str]] = {}
        self._unresponsive = UnresponsiveBrokers({})

    async def count_at(self, broker: str) -> None:
        for what, count in (
            ("delayed messages", self._delayed),
            ("timer messages", self._timed),
            ("half messages", self._half),
            ("retries", self._left),
            ("dead letters", self._given_up),
        ):
            try:
                await self._unresponsive.ask(broker, partial(count, broker))
            except ReplicatorError as error:
                self.found.problems.append(f"{what} that wait at {broker} are not known: {error}")

    async def _delayed(self, broker: str) -> None:
        master = self._cluster.master(broker)
        delivered = await delivered_levels(master)
        queues = range(len((await self._read_settings(master)).get("messageDelayLevel", DEFAULT_DELAYS).split()))
        ends = await bounded(partial(max_offset, master, SCHEDULE_TOPIC), queues, at_once=_AT_ONCE)
        for queue_id, end in zip(queues, ends, strict=True):
            begin = delivered.get(queue_id + 1, 0)
            if begin < end:
                await self._count("delay", broker, SCHEDULE_TOPIC, queue_id, begin, end)

    async def _timed(self, broker: str) -> None:
        for topic, count in (await timer_counts(self._cluster.master(broker))).items():
            if self._copies(topic):
                self.found.counts[topic, "timer"] += count

    async def _half(self, broker: str) -> None:
        """Half messages after the one that the broker checks next, which no later record has ended."""
        master = self._cluster.master(broker)
        if (await self._read_settings(master)).get(_IN_ROCKSDB) == "true":
            self.found.problems.append(
                f"half messages that wait at {broker} are not known: it keeps them in RocksDB"
            )
            return
        checked = (await self._consumed(master)).offsets
        begin, end = await _unchecked(master, HALF_TOPIC, checked)
        if begin >= end:
            return
        decided = await _unchecked(master, DECIDED_TOPIC, checked)
        if not await _is_readable(master, HALF_TOPIC, begin):
            self.found.uncounted += max(0, end - begin - (decided[1] - decided[0]))
            return
        ended: set[int] = set()
        try:
            async with asyncio.timeout_at(self._until):
                async for record in self._read(broker, DECIDED_TOPIC, 0, *decided):
                    offsets = map(properties.number, record.content.split(b","))
                    ended.update(offset for offset in offsets if offset is not None)
        except TimeoutError:
            self.found.uncounted += end - begin
            return
        await self._count("transaction", broker, HALF_TOPIC, 0, begin, end, without=ended)

    async def _left(self, broker: str) -> None:
        """What groups have not consumed of their retry topics, where these are not copied."""
        consumed = (await self._consumed(self._cluster.reader(broker))).offsets
        places = [
            (topic, queue_id, offset)
            for (_, topic), queues in consumed.items()
            if self._stays(topic, RETRY_PREFIX)
            for queue_id, offset in queues.items()
        ]
        await self._count_to_ends("retry", broker, places)

    async def _given_up(self, broker: str) -> None:
        """What is in groups' dead-letter topics, where these are not copied."""
        reader = self._cluster.reader(broker)
        queues = [
            (topic, queue_id)
            for topic, config in self._topics.get(broker, {}).items()
            if self._stays(topic, DEAD_LETTER_PREFIX)
            for queue_id in range(config.queues)
        ]
        begins = await bounded(lambda queue: min_offset(reader, *queue), queues, at_once=_AT_ONCE)
        places = [(*queue, begin) for queue, begin in zip(queues, begins, strict=True)]
        await self._count_to_ends("dead-letter", broker, places)

    def _stays(self, topic: str, prefix: str) -> bool:
        """Whether it is such a topic of a synced group, and is not copied."""
        return topic.startswith(prefix) and self._of_groups(topic) and not self._copies(topic)

    async def _count_to_ends(self, kind: str, broker: str, places: Iterable[tuple[str, int, int]]) -> None:
        """Counts what is in queues from an offset on."""
        reader = self._cluster.reader(broker)

        async def count(place: tuple[str, int, int]) -> None:
            topic, queue_id, begin = place
            left = max(0, await max_offset(reader, topic, queue_id) - begin)
            self.found.counts[topic, kind] += left  # which others count meanwhile

        await bounded(count, places, at_once=_AT_ONCE)

    async def _read_settings(self, broker: Endpoint) -> Mapping[str, str]:
        """Those of `broker`, read once; none where they may not be read."""
        if broker.address not in self._settings:
            try:
                self._settings[broker.address] = await read_settings(broker)
            except BrokerRefused:
                self._settings[broker.address] = {}
        return self._settings[broker.address]

    async def _consumed(self, broker: Endpoint) -> OffsetTable:
        """How far all groups are there; read once."""
        if broker.address not in self._offsets:
            self._offsets[broker.address] = await read_offsets(broker)
        return self._offsets[broker.address]

    async def _count(
        self,
        kind: str,
        broker: str,
        topic: str,
        queue_id: int,
        begin: int,
        end: int,
        *,
        without: Iterable[int] = (),
    ) -> None:
        left = end - begin
        try:
            async with asyncio.timeout_at(self._until):
                async for message in self._read(broker, topic, queue_id, begin, end):
                    left = end - message.queue_offset - 1
                    real = (properties.find(message.properties, b"REAL_TOPIC") or b"").decode(errors="replace")
                    if message.queue_offset not in without and self._copies(real):
                        self.found.counts[real, kind] += 1
        except TimeoutError:
            self.found.uncounted += left

    async def _read(
        self, broker: str, topic: str, queue_id: int, begin: int, end: int
    ) -> AsyncIterator[StoredMessage]:
        reader = RangeReader(self._cluster, topic, Queue(broker, queue_id), begin, end, on_loss="skip")
        async for chunk in reader.chunks():
            for message in chunk:
                yield message


async def _is_readable(broker: Endpoint, topic: str, offset: int) -> bool:
    """Whether `broker` gives messages of a topic of its own; 4.9.7 gives no half messages."""
    try:
        await pull(broker, topic, 0, offset, count=1)
    except BrokerRefused as refused:
        if refused.code == Response.TOPIC_NOT_EXIST:
            return False
        raise
    return True


async def _unchecked(
    broker: Endpoint, topic: str, checked: Mapping[tuple[str, str], Mapping[int, int]]
) -> tuple[int, int]:
    """The offsets [begin, end) of a topic of transactions that the broker has not checked."""
    end = await max_offset(broker, topic, 0)
    begin = checked.get((_CHECKER, topic), {}).get(0, 0)
    return (max(begin, await min_offset(broker, topic, 0)) if end else 0), end
