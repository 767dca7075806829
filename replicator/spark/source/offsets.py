"""The range of a batch read: queues and their offsets, fixed on the driver, and split into parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset, offset_at
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.topics import read_topics
from replicator.errors import ConfigError
from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue
from replicator.spark.source.options import EARLIEST, Bound, ReadOptions

__all__ = ["Limits", "Part", "freeze", "split", "within"]

#: Concurrent requests.
_AT_ONCE: Final = 32


class Part(NamedTuple):
    """Messages [start, end) of a queue."""

    topic: str
    queue: Queue
    start: int
    end: int

    @property
    def message_queue(self) -> MessageQueue:
        return MessageQueue(self.topic, *self.queue)


@dataclass
class Limits:
    """Integers in [`low`, `high`); None is no limit."""

    low: int | None = None
    high: int | None = None


async def freeze(cluster: Cluster, options: ReadOptions) -> list[Part]:
    """All queues that are read, with their ranges.

    Raises:
        ConfigError: a requested topic, queue or offset does not exist.
        ClientError: a broker does not answer.
    """
    queues = await _queues(cluster, options)
    for name, bound in (("startingOffsets", options.start), ("endingOffsets", options.end)):
        _refuse_unknown(name, bound, queues)

    async def one(queue: MessageQueue) -> Part:
        place = (cluster.reader(queue.broker), queue.topic, queue.queue_id)
        ends = await min_offset(*place), await max_offset(*place)
        start = await _resolve(cluster, queue, options.start, ends)
        end = await _resolve(cluster, queue, options.end, ends)
        if options.fail_on_data_loss:
            _refuse_unreadable(queue, options, ends, start, end)
        start, end = max(start, ends[0]), max(min(end, ends[1]), ends[0])
        return Part(queue.topic, queue.queue, min(start, end), end)

    return await bounded(one, queues, at_once=_AT_ONCE)


async def _queues(cluster: Cluster, options: ReadOptions) -> list[MessageQueue]:
    found: list[MessageQueue] = []
    system = ((await cluster.refresh()).cluster, *cluster.brokers())
    for broker in cluster.brokers():
        topics = (await read_topics(cluster.reader(broker))).topics
        found += [
            MessageQueue(name, broker, i)
            for name, config in topics.items()
            if options.selects(name, system)
            for i in range(config.queues)
        ]
    missing = set(options.named) - {queue.topic for queue in found}
    if missing:
        raise ConfigError(f"topic = {', '.join(sorted(missing))!r}: no broker has it", hint="check its name")
    return sorted(found)


async def within(broker: Endpoint, part: Part, offsets: Limits, times: Limits) -> Part:
    """`part`, which `broker` has, cut to both limits: by offset, and by store time.

    Times are milliseconds since the epoch, resolved by the broker; raises the errors of `offset_at`.
    """
    place = (broker, part.topic, part.queue.queue_id)

    async def at(time: int | None) -> int | None:
        return None if time is None or part.start == part.end else await offset_at(*place, time)

    lows, highs = (offsets.low, await at(times.low)), (offsets.high, await at(times.high))
    start = min(part.end, max([part.start, *(low for low in lows if low is not None)]))
    end = max(start, min([part.end, *(high for high in highs if high is not None)]))
    return part._replace(start=start, end=end)


def _refuse_unreadable(
    queue: MessageQueue, options: ReadOptions, ends: tuple[int, int], start: int, end: int
) -> None:
    oldest, following = ends
    if not (oldest <= start <= following and oldest <= end <= following):
        raise ConfigError(
            f"{queue} has the offsets {oldest} to {following}, {start} to {end} were requested",
            hint="give offsets that exist, or failOnDataLoss=false",
        )
    # One time may be after all messages of a queue, and the other before them.
    if start > end and options.start.timestamp is None and options.end.timestamp is None:
        raise ConfigError(
            f"{queue} was requested from startingOffsets = {start} to endingOffsets = {end}",
            hint="give a start that is not after the end, or failOnDataLoss=false, which leaves the queue out",
        )


def _refuse_unknown(option: str, bound: Bound, queues: Sequence[MessageQueue]) -> None:
    there = set(queues)
    for topic, brokers in (bound.offsets or {}).items():
        for broker, offsets in brokers.items():
            for queue_id in offsets:
                queue = MessageQueue(topic, broker, queue_id)
                if queue not in there:
                    raise ConfigError(f"{option} names {queue}, which is not selected", hint="remove it there")


async def _resolve(cluster: Cluster, queue: MessageQueue, bound: Bound, ends: tuple[int, int]) -> int:
    least, most = ends
    if bound.timestamp is not None:
        found = await offset_at(cluster.reader(queue.broker), queue.topic, queue.queue_id, bound.timestamp)
        return min(max(found, least), most)
    offset = bound.default
    if bound.offsets is not None:
        offset = bound.offsets.get(queue.topic, {}).get(queue.broker, {}).get(queue.queue_id, offset)
    if offset >= 0:
        return offset
    return least if offset == EARLIEST else most


def split(parts: Sequence[Part], least: int) -> list[Part]:
    """`parts` without empty ones, with long ones split until there are about `least`."""
    full = [part for part in parts if part.end > part.start]
    total = sum(part.end - part.start for part in full)
    return [cut for part in full for cut in _cut(part, max(1, round(least * (part.end - part.start) / total)))]


def _cut(part: Part, pieces: int) -> Iterator[Part]:
    length = part.end - part.start
    pieces = min(pieces, length)
    for i in range(pieces):
        yield part._replace(start=part.start + length * i // pieces, end=part.start + length * (i + 1) // pieces)
