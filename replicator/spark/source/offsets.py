"""The range of a batch read: queues and their offsets, fixed on the driver, and split into parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset, min_offset, offset_at
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.topics import read_topics
from replicator.errors import ConfigError
from replicator.observe.logging import get_logger
from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue
from replicator.spark.source.given_options import EARLIEST, Bound
from replicator.spark.source.options import ReadOptions

__all__ = ["Limits", "Part", "freeze", "split", "warn_of_loss", "warn_of_nothing", "within"]

#: Queue numbers by topic and broker.
_Named = Mapping[str, Mapping[str, Iterable[int]]]

log = get_logger(__name__)

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
    named: dict[str, _Named | None] = {"assign": options.assigned}
    for side, bound in (("starting", options.start), ("ending", options.end)):
        named |= {f"{side}Offsets": bound.offsets, f"{side}OffsetsByTimestamp": bound.times}
    for option, given in named.items():
        _refuse_unknown(option, given or {}, queues)

    async def one(queue: MessageQueue) -> Part:
        place = (cluster.reader(queue.broker), queue.topic, queue.queue_id)
        ends = await min_offset(*place), await max_offset(*place)
        start = await _resolve(cluster, queue, options.start, ends)
        end = await _resolve(cluster, queue, options.end, ends)
        if options.fail_on_data_loss:
            _refuse_unreadable(queue, options, ends, start, end)
        elif (lost := max(0, min(end, ends[0]) - start) + max(0, end - max(start, ends[1]))) > 0:
            warn_of_loss(queue, lost)
        start, end = max(start, ends[0]), max(min(end, ends[1]), ends[0])
        return Part(queue.topic, queue.queue, min(start, end), end)

    return await bounded(one, queues, at_once=_AT_ONCE)


def warn_of_nothing(options: ReadOptions) -> None:
    """Says that no topic matches: that is not an error, as in Spark's Kafka source, since one may come."""
    for pattern in options.selector.include.texts:
        log.warning("no topic matches topicsPattern: nothing is read", topics_pattern=pattern)


def warn_of_loss(queue: MessageQueue, count: int) -> None:
    """Says what `failOnDataLoss=false` leaves out."""
    log.warning("offsets are left out that the broker does not have", queue=str(queue), count=count)


async def _queues(cluster: Cluster, options: ReadOptions) -> list[MessageQueue]:
    found: list[MessageQueue] = []
    there: set[str] = set()
    system = ((await cluster.refresh()).cluster, *cluster.brokers())
    for broker in cluster.brokers():
        for topic in (await read_topics(cluster.reader(broker))).topics.values():
            found += options.queues(topic, broker, system)
            there.add(topic.name)
    missing = [name for name in options.named if name not in there]
    if missing:
        raise ConfigError(f"topic = {', '.join(missing)!r}: no broker has it", hint="check its name")
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
    if start > end and not (options.start.by_time or options.end.by_time):
        raise ConfigError(
            f"{queue} was requested from startingOffsets = {start} to endingOffsets = {end}",
            hint="give a start that is not after the end, or failOnDataLoss=false, which leaves the queue out",
        )


def _refuse_unknown(option: str, given: _Named, queues: Sequence[MessageQueue]) -> None:
    there = set(queues)
    for topic, brokers in given.items():
        for broker, numbers in brokers.items():
            for queue_id in numbers:
                queue = MessageQueue(topic, broker, queue_id)
                if queue not in there:
                    what = "does not exist" if option == "assign" else "is not selected"
                    raise ConfigError(f"{option} names {queue}, which {what}", hint="remove it there")


async def _resolve(cluster: Cluster, queue: MessageQueue, bound: Bound, ends: tuple[int, int]) -> int:
    least, most = ends
    if (time := bound.time(queue)) is not None:
        found = await offset_at(cluster.reader(queue.broker), queue.topic, queue.queue_id, time)
        return min(max(found, least), most)
    offset = bound.offset(queue)
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
