"""Compares a source queue with its target queue by provenance: in step first, message by message where they differ.

Differences are recorded as runs of source offsets, so a queue of any length needs little memory, and only those
runs are read again, one after the other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import msgspec

from replicator.client.brokers import max_offset, min_offset
from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage
from replicator.ranges.access import Access
from replicator.ranges.copies import Copies, Kept, copies_of
from replicator.ranges.copy_job import Range
from replicator.ranges.findings import Finding, Findings, MessageKeys
from replicator.ranges.pairing import RUN, Pairing
from replicator.ranges.rates import RateLimited, acquire_for
from replicator.ranges.reader import RangeReader
from replicator.ranges.retry import PATIENCE
from replicator.routing.faults import SourceGap, SourceReset
from replicator.routing.limiter import RateLimiter
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions

__all__ = ["Caveat", "CompareJob", "Compared", "compare"]


class Caveat(StrEnum):
    """Why nothing is said of what a queue should have."""

    NO_COPIES = "it has no copies at all"
    DELETED = "the target's retention has deleted copies: what they were of is left out"


class Compared(msgspec.Struct, frozen=True):
    """Findings of the source queue `key` and the target queue `target`.

    `selected` source messages of offsets [start, end) should have a copy, `copies` exist; `behind` counts offsets
    of the source that were not compared, since nothing from there on is copied yet. `counts` are by kind.
    `differing` are the numbers of the runs of 4096 source offsets that differ, or beside whose copies there are
    messages of others. `findings` are the first ones. With a `caveat` no findings do not mean that all is there.
    """

    key: str
    target: str
    start: int
    end: int
    behind: int
    selected: int = 0
    copies: int = 0
    source_digest: str = ""
    target_digest: str = ""
    counts: dict[str, int] = {}
    findings: list[Finding] = []
    differing: list[int] = []
    seconds: float = 0.0
    error: str = ""
    caveat: Caveat | None = None

    @classmethod
    def failed(cls, part: Range, error: str) -> Compared:
        """The outcome of a queue that could not be read."""
        return cls(part.key, _name(part), part.start, part.end, 0, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareJob(RateLimited):
    """What all queues have in common; the limits apply to the reads of each side.

    With `complete` the target must have all that the source had at the start; else only what is before the last
    copy. With `from_first_copy` nothing before the first copy is required; `extra` says whether messages of others
    count. With `window` only a queue's range is compared, and messages that are not copies are ignored. At most
    `most` findings of each kind are kept for each queue.
    """

    source: Access
    target: Access
    options: RouteOptions
    complete: bool = False
    from_first_copy: bool = False
    extra: bool = True
    window: bool = False
    most: int = 20


async def compare(job: CompareJob, part: Range, *, there: bool = True) -> Compared:
    """Compares one queue.

    Args:
        there: whether the target has the queue.

    Raises:
        ReplicatorError: a cluster cannot be read, or the source lost messages while they were read.
    """
    started = time.monotonic()
    async with job.source.connected(patience=PATIENCE) as source, job.target.connected(patience=PATIENCE) as target:
        reading = _Reading(job, part, source, target)
        found = Findings(job.most)
        whole = await reading.read_bounds() if there else True
        await reading.read_source_end()
        from_first = not whole or (there and job.from_first_copy)
        begin = await reading.first_copied(otherwise=reading.start) if from_first else reading.start
        async with aclosing(reading.source(begin, reading.end)) as ahead:
            cluster = job.options.identity.source
            start, end = reading.start, reading.before
            pairing = Pairing(
                cluster,
                part.source,
                ahead,
                reading.stored_at,
                start=start,
                begin=begin,
                end=end,
                topic=part.target_topic,
            )
            differing: set[int] = set()
            async for messages in reading.target():
                if reading.report(found, await pairing.take(messages)):
                    differing.add(max(reading.start, pairing.highest) // RUN)
            start, end = _bounds(job, reading, pairing, from_first=from_first)
            await pairing.finish(end)
        async for messages in reading.source(start, begin):  # an earlier message was copied later
            for message in messages:
                pairing.miss(message)
        detail = _Detail(reading, pairing, found)
        for run in sorted(pairing.differing):
            if await detail.compare(run, start, end):
                differing.add(run)
        caveat = await reading.caveat(pairing)
    source_digest, target_digest = pairing.digests
    return Compared(
        part.key,
        _name(part),
        start,
        end,
        max(0, reading.end - end),
        selected=pairing.selected,
        copies=pairing.copies,
        source_digest=source_digest,
        target_digest=target_digest,
        counts=found.counts,
        findings=sorted(found.first, key=lambda each: (each.source is None, each.source or each.target or 0)),
        differing=sorted(differing),
        seconds=round(time.monotonic() - started, 3),
        caveat=caveat,
    )


def _bounds(job: CompareJob, reading: _Reading, pairing: Pairing, *, from_first: bool) -> tuple[int, int]:
    """The source offsets that are compared: [start, end)."""
    start = reading.start
    if reading.is_emptied and not pairing.copies:
        return start, start
    end = max(start, min(reading.end, pairing.highest + 1))
    if job.complete:
        end = max(end, min(reading.part.end, reading.end))
    if pairing.first is None or not from_first:
        return start, end
    return min(end, pairing.first), end


class _Reading:
    """Reads both queues, as often as needed."""

    def __init__(self, job: CompareJob, part: Range, source: Cluster, target: Cluster) -> None:
        self.job = job
        self.part = part
        #: The compared range of the source queue; copies of messages before `start` cannot be compared.
        self.start = part.start
        self.end = part.end
        #: Copies of messages from this source offset on do not count.
        self.before = part.end if job.window else None
        self._source = source
        self._target = target
        self._source_limiter = RateLimiter(job.rate_messages, job.rate_bytes)
        self._target_limiter = RateLimiter(job.rate_messages, job.rate_bytes)
        #: The target queue's range, if it is there.
        self._there = False
        self._oldest = 0
        self._end = 0
        #: Copies of source offsets before this one have been deleted while they were read.
        self._kept_from = 0

    async def read_source_end(self) -> None:
        """Reads the source queue's current end, unless a window limits it; all copied messages are before it."""
        broker = self._source.reader(self.part.source.broker)
        self.end = await max_offset(broker, self.part.topic, self.part.source.queue_id)
        if self.job.window:
            self.end = min(self.end, self.part.end)

    async def read_bounds(self) -> bool:
        """Reads the target queue's range and the source's start; whether the target has its first message."""
        reader = self._source.reader(self.part.source.broker)
        self.start = max(self.start, await min_offset(reader, self.part.topic, self.part.source.queue_id))
        broker, queue_id = self._target.master(self.part.target.broker), self.part.target.queue_id
        self._oldest = await min_offset(broker, self.part.target_topic, queue_id)
        self._end = await max_offset(broker, self.part.target_topic, queue_id)
        self._there = True
        return self._oldest == 0

    @property
    def is_emptied(self) -> bool:
        """Whether retention had deleted all that the target had."""
        return self._oldest == self._end > 0

    async def kept_from(self) -> int:
        """The source offset before which copies may have been deleted since they were counted."""
        if self._there:
            place = self._target.master(self.part.target.broker), self.part.target_topic, self.part.target.queue_id
            oldest = await min_offset(*place)
            if oldest > self._oldest:
                self._oldest = oldest
                self._kept_from = await self.first_copied(otherwise=self.end)
        return self._kept_from

    async def caveat(self, pairing: Pairing) -> Caveat | None:
        """What has to be known beside the findings."""
        if self._kept_from or (self._oldest > 0 and not pairing.copies):  # what is left may be of others
            return Caveat.DELETED
        if pairing.copies or (self._there and self.job.from_first_copy):
            return None
        async with aclosing(self.source(self.start, self.end)) as chunks:
            return None if await anext(chunks, None) is None else Caveat.NO_COPIES

    async def target(self, places: tuple[int, int] | None = None) -> AsyncGenerator[Sequence[StoredMessage]]:
        """The messages at target offsets `places`, or all of them, some at a time."""
        start, end = places or (self._oldest, self._end)
        place = self._target, self.part.target_topic, self.part.target
        # Only what the master has counts; a slave may still have messages of a deleted topic.
        reader = RangeReader(*place, start, end, on_loss="skip", at_slave=False)
        async for messages in _limited(reader, self._target_limiter):
            yield messages

    def copies(self, messages: Sequence[StoredMessage]) -> Copies:
        """The copies from our source queue among `messages`."""
        cluster = self.job.options.identity.source
        topic = self.part.target_topic
        return copies_of(cluster, self.part.source, messages, start=self.start, end=self.before, topic=topic)

    async def first_copied(self, *, otherwise: int) -> int:
        """The source offset of the target's first copy; `otherwise` if there is none."""
        async with aclosing(self.target()) as chunks:
            async for messages in chunks:
                if offsets := [offset for offset in self.copies(messages).offsets if offset < self.end]:
                    return min(offsets)
        return otherwise

    async def stored_at(self, offset: int) -> int | None:
        """When the source stored the message at `offset`; None if it has none there that the route selects."""
        if offset < self.end:
            async for messages in self.source(offset, offset + 1):
                return messages[0].store_timestamp
        return None

    def report(self, found: Findings, copies: Copies) -> bool:
        """Adds messages that are not copies of our source queue to `found`; whether there were some."""
        before = found.total
        for message, copy in () if self.job.window else copies.others:
            keys = MessageKeys.of(message)
            if copy is not None and copy.cluster == self.job.options.identity.source:
                place = f"{copy.broker}/{copy.queue_id}/{copy.offset}"
                found.add("misplaced", None, message.queue_offset, keys, f"a copy of {place}")
            elif self.job.extra:
                what = "" if copy is None else f"a copy from {copy.cluster}"
                found.add("extra", None, message.queue_offset, keys, what)
        return found.total > before

    async def source(self, start: int, end: int) -> AsyncGenerator[Sequence[StoredMessage]]:
        """The messages of source offsets [start, end) that the route selects, some at a time.

        Raises:
            ReplicatorError: it cannot be read, or no longer has them.
        """
        reader = RangeReader(self._source, self.part.topic, self.part.source, start, end, options=self.job.options)
        try:
            async for messages in _limited(reader, self._source_limiter):
                yield messages
        except (SourceGap, SourceReset) as loss:
            raise ReplicatorError(
                f"{self.part.key}: {loss.message}", hint="run it again: it begins with what the source has then"
            ) from None


async def _limited(reader: RangeReader, limiter: RateLimiter) -> AsyncGenerator[Sequence[StoredMessage]]:
    """The messages of `reader`, at most at the rate of `limiter`."""
    async for messages in reader.chunks():
        if messages:
            await acquire_for(limiter, messages)
            yield messages


class _Copy(NamedTuple):
    """A copy at target offset `target`; `late`: after the copy of a later message."""

    target: int
    kept: Kept
    keys: MessageKeys
    late: bool


class _Detail:
    """Compares a run that differs message by message."""

    def __init__(self, reading: _Reading, pairing: Pairing, found: Findings) -> None:
        self._reading = reading
        self._pairing = pairing
        self._found = found

    async def compare(self, run: int, start: int, end: int) -> bool:
        """Adds the differences in `run` to the findings; whether there are some.

        Of the source only [start, end) should have copies; those of later messages are judged where they exist.
        """
        before = self._found.total
        there = await self._copies(run)
        kept_from = await self._reading.kept_from()
        born_here, topic = self._reading.job.options.identity.source, self._reading.part.target_topic
        stop = min((run + 1) * RUN, self._reading.end, max(end, *(offset + 1 for offset in there), 0))
        async for messages in self._reading.source(max(start, run * RUN), stop):
            for message in messages:
                copies = there.pop(message.queue_offset, [])
                if copies or kept_from <= message.queue_offset < end:
                    self._judge(message, Kept.of_source(message, born_here, topic=topic), copies)
        for offset, left in sorted(there.items()):
            for copy in left:
                detail = "the source has no such message to copy"
                self._found.add("unknown", offset, copy.target, copy.keys, detail)
        return self._found.total > before

    async def _copies(self, run: int) -> dict[int, list[_Copy]]:
        """All copies of `run`, by source offset, in their order at the target."""
        there: dict[int, list[_Copy]] = defaultdict(list)
        for stretch in self._pairing.stretches.get(run, ()):
            highest = stretch.highest
            async for messages in self._reading.target((stretch.start, stretch.end)):
                copies = self._reading.copies(messages)
                for message, offset in zip(copies.messages, copies.offsets, strict=True):
                    if offset // RUN == run:
                        copy = Kept.of_copy(message), MessageKeys.of(message)
                        there[offset].append(_Copy(message.queue_offset, *copy, offset <= highest))
                    if offset < self._reading.end:
                        highest = max(highest, offset)
        return there

    def _judge(self, message: StoredMessage, wanted: Kept, copies: Sequence[_Copy]) -> None:
        offset, keys = message.queue_offset, MessageKeys.of(message)
        if not copies:
            self._found.add("missing", offset, None, keys)
            return
        first = next((copy for copy in copies if copy.kept.stored == wanted.stored), copies[0])
        for again in copies:
            if again is not first:
                self._found.add("duplicate", offset, again.target, keys, f"also at {first.target}")
        if first.kept.stored == wanted.stored and self._is_out_of_order(first):
            self._found.add("reordered", offset, first.target, keys, "out of the source's order")
        for copy in copies:
            for kind, detail in wanted.changes(copy.kept):
                self._found.add(kind, offset, copy.target, keys, detail)

    def _is_out_of_order(self, copy: _Copy) -> bool:
        order = self._pairing.order
        if order.full_from is not None and copy.target >= order.full_from:
            return copy.late
        return order.is_out(copy.target)


def _name(part: Range) -> str:
    return str(MessageQueue(part.target_topic, *part.target))
