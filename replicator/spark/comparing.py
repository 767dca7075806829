"""A source queue against its target queue by provenance: digests first, single messages where they differ.

Digests are kept per run of source offsets, so a queue of any length needs little memory, and only the runs that
differ are read again.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

import msgspec

from replicator.client.brokers import max_offset, min_offset
from replicator.client.cluster import Cluster
from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.options import RouteOptions
from replicator.routing.provenance import birthplace
from replicator.spark.access import Access
from replicator.spark.copying import Range
from replicator.spark.digests import RUN, Copies, CopyForms, Runs, SourceForms, own
from replicator.spark.reading import PATIENCE, RangeReader

__all__ = ["KINDS", "CompareJob", "Compared", "Finding", "compare"]

#: Runs of one queue that are compared message by message, at most.
_DETAILED: Final = 64

#: What can be wrong.
KINDS: Final = (
    "missing",
    "repeated",
    "reordered",
    "body",
    "flag",
    "properties",
    "header",
    "origin",
    "stale",
    "unknown",
    "misplaced",
    "extra",
)


class Finding(msgspec.Struct, frozen=True):
    """One message that is not as it should be; offsets are None where there is no such message."""

    kind: str
    source: int | None
    target: int | None
    detail: str = ""


class Compared(msgspec.Struct, frozen=True):
    """What was found of the source queue `key` and the target queue `target`.

    `selected` source messages of offsets [start, end) should have a copy, `copies` are there; `behind` are offsets
    of the source that were not compared, since nothing behind them is copied yet. `counts` are by kind; where
    `more_runs` is not 0, so many runs of 4096 offsets differ beyond those that were looked into. `findings` are the
    first ones.
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
    more_runs: int = 0
    seconds: float = 0.0
    error: str = ""

    @property
    def clean(self) -> bool:
        """Whether all is as it should be."""
        return not self.counts and not self.more_runs and not self.error

    @classmethod
    def failed(cls, part: Range, error: str) -> Compared:
        """One that could not be read."""
        return cls(part.key, _name(part), part.start, part.end, 0, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareJob:
    """What all queues have in common.

    With `complete` what the source had when it was asked must be there; else only what lies before the last copy.
    With `from_first_copy` nothing before the first copy is asked for; `extra` says whether others' messages count.
    `most` findings are kept for each queue.
    """

    source: Access
    target: Access
    options: RouteOptions
    complete: bool = False
    from_first_copy: bool = False
    extra: bool = True
    most: int = 20


@dataclass(slots=True)
class _Target:
    """The target's side: digests, where the copies of a run lie, and which stand behind a later one."""

    runs: Runs = field(default_factory=Runs)
    first: int | None = None
    highest: int = -1
    behind: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, copies: Copies) -> None:
        """Some more of them, one or more."""
        offsets, messages = copies.offsets, copies.messages
        self.runs.add(offsets, copies.forms)
        for highest, offset, message in zip(
            accumulate((self.highest, *offsets), max), offsets, messages, strict=False
        ):
            if offset <= highest:
                self.behind[offset // RUN].add(message.queue_offset)
        self.highest = max(self.highest, *offsets)
        self.first = min(offsets) if self.first is None else min(self.first, *offsets)
        for run in {offset // RUN for offset in offsets}:
            low, _ = self.places.get(run, (messages[0].queue_offset, 0))
            self.places[run] = (low, messages[-1].queue_offset + 1)


class _Findings:
    def __init__(self, most: int) -> None:
        self.counts: dict[str, int] = {}
        self.first: list[Finding] = []
        self._most = most

    def add(self, kind: str, source: int | None, target: int | None, detail: str = "") -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= self._most:
            self.first.append(Finding(kind, source, target, detail))


async def compare(job: CompareJob, part: Range, *, there: bool = True) -> Compared:
    """Compares one queue.

    Args:
        there: whether the target has the queue at all.

    Raises:
        SourceGap, SourceReset: the source lost messages while they were read.
        ReplicatorError: a cluster cannot be read.
    """
    started = time.monotonic()
    async with job.source.connected(patience=PATIENCE) as source, job.target.connected(patience=PATIENCE) as target:
        reading = _Reading(job, part, source, target)
        found = _Findings(job.most)
        copied = _Target()
        whole = False
        if there:
            whole = await reading.look()
            async for copies in reading.copies():
                reading.tell(found, copies)
                if copies.offsets:
                    copied.take(copies)
        await reading.look_at_source()
        start, end = _bounds(job, reading, copied, whole=whole or not there)
        selected, forms = Runs(), SourceForms(job.options.identity.source)
        async for messages in reading.source(start, end):
            selected.add([message.queue_offset for message in messages], forms.of(messages))
        runs = sorted({*selected, *(run for run in copied.runs if run >= start // RUN)})
        differing = [run for run in runs if selected.of(run) != copied.runs.of(run) or run in copied.behind]
        await _Detail(reading, copied, found).compare(differing[:_DETAILED], start, end)
    return Compared(
        part.key,
        _name(part),
        start,
        end,
        max(0, reading.end - end),
        selected=selected.messages,
        copies=copied.runs.messages,
        source_digest=selected.digest(runs),
        target_digest=copied.runs.digest(runs),
        counts=found.counts,
        findings=sorted(found.first, key=lambda each: (each.source is None, each.source or each.target or 0)),
        more_runs=len(differing[_DETAILED:]),
        seconds=round(time.monotonic() - started, 3),
    )


def _bounds(job: CompareJob, reading: _Reading, copied: _Target, *, whole: bool) -> tuple[int, int]:
    """The source offsets that are compared: [start, end)."""
    start = reading.start
    end = max(start, min(reading.end, copied.highest + 1))
    if job.complete:
        end = max(end, reading.part.end)
    if copied.first is None or (whole and not job.from_first_copy):
        return start, end
    return min(end, copied.first), end


class _Reading:
    """Both queues, as often as they are needed."""

    def __init__(self, job: CompareJob, part: Range, source: Cluster, target: Cluster) -> None:
        self.job = job
        self.part = part
        #: Ends of the source queue; copies of what lies before `start` cannot be compared with anything.
        self.start = part.start
        self.end = part.end
        self._source = source
        self._target = target
        self._oldest = 0
        self._end = 0

    async def look_at_source(self) -> None:
        """Takes the source queue's end once more: what has been copied by now was there before."""
        broker = self._source.reader(self.part.source.broker)
        self.end = max(self.end, await max_offset(broker, self.part.topic, self.part.source.queue_id))

    async def look(self) -> bool:
        """Freezes the target queue's ends and where the source begins; whether the target has its first message."""
        reader = self._source.reader(self.part.source.broker)
        self.start = max(self.start, await min_offset(reader, self.part.topic, self.part.source.queue_id))
        broker, queue_id = self._target.master(self.part.target.broker), self.part.target.queue_id
        self._oldest = await min_offset(broker, self.part.target_topic, queue_id)
        self._end = await max_offset(broker, self.part.target_topic, queue_id)
        return self._oldest == 0

    async def copies(self, places: tuple[int, int] | None = None) -> AsyncIterator[Copies]:
        """What is at target offsets `places`, some at a time."""
        start, end = places or (self._oldest, self._end)
        forms = CopyForms(self.job.options.identity.source, self.part.source, start=self.start)
        reader = RangeReader(self._target, self.part.target_topic, self.part.target, start, end, on_loss="skip")
        async for messages in reader.chunks():
            yield forms.of(messages)

    def tell(self, found: _Findings, copies: Copies) -> None:
        """Puts what is no copy of our source queue into `found`."""
        for message, copy in copies.others:
            if copy is not None and copy.cluster == self.job.options.identity.source:
                place = f"{copy.broker}/{copy.queue_id}/{copy.offset}"
                found.add("misplaced", None, message.queue_offset, f"a copy of {place}")
            elif self.job.extra:
                found.add(
                    "extra", None, message.queue_offset, "" if copy is None else f"a copy from {copy.cluster}"
                )

    async def source(self, start: int, end: int) -> AsyncIterator[list[StoredMessage]]:
        """What the route selects of source offsets [start, end), some at a time."""
        reader = RangeReader(self._source, self.part.topic, self.part.source, start, end, options=self.job.options)
        async for messages in reader.chunks():
            if messages:
                yield messages


class _Detail:
    """Message by message, in runs that differ."""

    def __init__(self, reading: _Reading, copied: _Target, found: _Findings) -> None:
        self._reading = reading
        self._copied = copied
        self._found = found

    async def compare(self, runs: list[int], start: int, end: int) -> None:
        """Puts what differs in `runs` into the findings."""
        wanted, places = set(runs), [self._copied.places[run] for run in runs if run in self._copied.places]
        there: dict[int, list[tuple[int, _Parts]]] = defaultdict(list)
        if places:
            reach = min(low for low, _ in places), max(high for _, high in places)
            async for copies in self._reading.copies(reach):
                for message, offset in zip(copies.messages, copies.offsets, strict=True):
                    if offset // RUN in wanted:
                        there[offset].append((message.queue_offset, _Parts.of_copy(message)))
        born_here = self._reading.job.options.identity.source
        for run in runs:
            async for messages in self._reading.source(max(start, run * RUN), min(end, (run + 1) * RUN)):
                for message in messages:
                    self._judge(message, _Parts.of_source(message, born_here), there)
        for offset, left in sorted(there.items()):
            for target, _ in left:
                self._found.add("unknown", offset, target, "the source has no such message to copy")

    def _judge(self, message: StoredMessage, wanted: _Parts, there: dict[int, list[tuple[int, _Parts]]]) -> None:
        offset = message.queue_offset
        copies = there.pop(offset, [])
        if not copies:
            self._found.add("missing", offset, None)
            return
        first, *again = copies
        for target, _ in again:
            self._found.add("repeated", offset, target, f"first at {first[0]}")
        if first[0] in self._copied.behind[offset // RUN]:
            self._found.add("reordered", offset, first[0], "behind the copy of a later message")
        for target, parts in copies:
            for kind, detail in wanted.changes(parts):
                self._found.add(kind, offset, target, detail)


class _Parts(msgspec.Struct, frozen=True):
    """What of a message a copy must keep."""

    body: bytes
    flag: int
    own: list[bytes]
    header: tuple[int, int]
    origin: bytes
    stored: int

    @classmethod
    def of_source(cls, message: StoredMessage, born_here: str) -> _Parts:
        """Args: the cluster that it was born in, unless it says another."""
        origin = birthplace(message.properties, born_here.encode())
        return cls._of(message, message.store_timestamp, origin)

    @classmethod
    def of_copy(cls, message: StoredMessage) -> _Parts:
        """Of one with provenance."""
        copy = provenance.read(message.properties)
        assert copy is not None  # noqa: S101 - it would not be a copy
        return cls._of(message, copy.stored, copy.origin.encode())

    @classmethod
    def _of(cls, message: StoredMessage, stored: int, origin: bytes) -> _Parts:
        digest = hashlib.sha256(message.body).digest()
        kept = (message.sys_flag & KEPT_SYS_FLAGS, message.reconsume_times)
        return cls(digest, message.flag, own(message.properties), kept, origin, stored)

    def changes(self, copy: _Parts) -> Iterable[tuple[str, str]]:
        """The kinds of what `copy` has otherwise, each with what is otherwise."""
        if self.stored != copy.stored:
            yield "stale", f"stored at {self.stored} there, the copy was made of one stored at {copy.stored}"
        if self.body != copy.body:
            yield "body", f"{self.body.hex()[:12]} became {copy.body.hex()[:12]} (SHA-256)"
        if self.flag != copy.flag:
            yield "flag", f"{self.flag} became {copy.flag}"
        if self.own != copy.own:
            names = sorted({part.partition(b"\x01")[0] for part in set(self.own) ^ set(copy.own)})
            yield "properties", b", ".join(names).decode(errors="replace")
        if self.header != copy.header:
            yield "header", f"compression and reconsume times {self.header} became {copy.header}"
        if self.origin != copy.origin:
            yield "origin", f"{self.origin.decode()} became {copy.origin.decode()}"


def _name(part: Range) -> str:
    return f"{part.target_topic}/{part.target.broker}/{part.target.queue_id}"
