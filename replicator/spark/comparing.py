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
from typing import Final

import msgspec

from replicator.client.brokers import max_offset, min_offset
from replicator.client.cluster import Cluster
from replicator.protocol import properties
from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import BROKER_MADE
from replicator.routing import provenance
from replicator.routing.options import RouteOptions
from replicator.routing.provenance import ORIGIN, PREFIX, Provenance
from replicator.spark.access import Access
from replicator.spark.copying import Range
from replicator.spark.reading import PATIENCE, RangeReader

__all__ = ["KINDS", "CompareJob", "Compared", "Finding", "compare"]

#: Source offsets that share a digest.
_RUN: Final = 4096
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

_NOT_OWN: Final = (PREFIX, *(name + b"\x01" for name in BROKER_MADE))


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
class _Side:
    """Counts and digests per run of source offsets."""

    count: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    digest: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, offset: int, digest: int) -> None:
        run = offset // _RUN
        self.count[run] += 1
        self.digest[run] = (self.digest[run] + digest) % 2**64

    def total(self, runs: Iterable[int]) -> str:
        return f"{sum(self.digest[run] for run in runs) % 2**64:016x}"


@dataclass(slots=True)
class _Copies(_Side):
    """The target's side: also where copies lie, and which stand behind a later one."""

    first: int | None = None
    highest: int = -1
    behind: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, message: StoredMessage, found: Provenance) -> None:
        run = found.offset // _RUN
        self.add(found.offset, _digest(message, found.offset, found.stored, found.origin.encode()))
        low, _ = self.places.get(run, (message.queue_offset, 0))
        self.places[run] = (low, message.queue_offset + 1)
        if found.offset <= self.highest:
            self.behind[run].add(message.queue_offset)
        self.highest = max(self.highest, found.offset)
        self.first = found.offset if self.first is None else min(self.first, found.offset)


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
        copies = _Copies()
        whole = False
        if there:
            whole = await reading.look()
            async for message, copy in reading.copies(found):
                copies.take(message, copy)
        await reading.look_at_source()
        start, end = _bounds(job, reading, copies, whole=whole or not there)
        selected = _Side()
        async for message in reading.source(start, end):
            origin = properties.find(message.properties, ORIGIN) or job.options.identity.source.encode()
            selected.add(
                message.queue_offset, _digest(message, message.queue_offset, message.store_timestamp, origin)
            )
        runs = sorted(set(selected.count) | {run for run in copies.count if run >= start // _RUN})
        differing = [
            run
            for run in runs
            if selected.count[run] != copies.count[run]
            or selected.digest[run] != copies.digest[run]
            or run in copies.behind
        ]
        await _Detail(reading, copies, found).compare(differing[:_DETAILED], start, end)
    return Compared(
        part.key,
        _name(part),
        start,
        end,
        max(0, reading.end - end),
        selected=sum(selected.count.values()),
        copies=sum(copies.count.values()),
        source_digest=selected.total(runs),
        target_digest=copies.total(runs),
        counts=found.counts,
        findings=sorted(found.first, key=lambda each: (each.source is None, each.source or each.target or 0)),
        more_runs=len(differing[_DETAILED:]),
        seconds=round(time.monotonic() - started, 3),
    )


def _bounds(job: CompareJob, reading: _Reading, copies: _Copies, *, whole: bool) -> tuple[int, int]:
    """The source offsets that are compared: [start, end)."""
    start = reading.start
    end = max(start, min(reading.end, copies.highest + 1))
    if job.complete:
        end = max(end, reading.part.end)
    if copies.first is None or (whole and not job.from_first_copy):
        return start, end
    return min(end, copies.first), end


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
        self._wanted = (job.options.identity.source, *part.source)

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

    async def copies(
        self, found: _Findings | None = None, places: tuple[int, int] | None = None
    ) -> AsyncIterator[tuple[StoredMessage, Provenance]]:
        """The copies of our source queue at target offsets `places`; what is none of them is put into `found`."""
        start, end = places or (self._oldest, self._end)
        reader = RangeReader(self._target, self.part.target_topic, self.part.target, start, end, on_loss="skip")
        async for messages in reader.chunks():
            for message in messages:
                copy = provenance.read(message.properties)
                if copy is not None and copy[1:4] == self._wanted:
                    if copy.offset >= self.start:
                        yield message, copy
                elif found is not None:
                    self._tell(found, message, copy)

    def _tell(self, found: _Findings, message: StoredMessage, copy: Provenance | None) -> None:
        if copy is not None and copy.cluster == self._wanted[0]:
            place = f"{copy.broker}/{copy.queue_id}/{copy.offset}"
            found.add("misplaced", None, message.queue_offset, f"a copy of {place}")
        elif self.job.extra:
            found.add("extra", None, message.queue_offset, "" if copy is None else f"a copy from {copy.cluster}")

    async def source(self, start: int, end: int) -> AsyncIterator[StoredMessage]:
        """What the route selects of source offsets [start, end)."""
        reader = RangeReader(self._source, self.part.topic, self.part.source, start, end, options=self.job.options)
        async for messages in reader.chunks():
            for message in messages:
                yield message


class _Detail:
    """Message by message, in runs that differ."""

    def __init__(self, reading: _Reading, copies: _Copies, found: _Findings) -> None:
        self._reading = reading
        self._copies = copies
        self._found = found

    async def compare(self, runs: list[int], start: int, end: int) -> None:
        """Puts what differs in `runs` into the findings."""
        wanted, places = set(runs), [self._copies.places[run] for run in runs if run in self._copies.places]
        there: dict[int, list[tuple[int, _Parts]]] = defaultdict(list)
        if places:
            reach = min(low for low, _ in places), max(high for _, high in places)
            async for message, copy in self._reading.copies(places=reach):
                if copy.offset // _RUN in wanted:
                    parts = _Parts.of(message, copy.stored, copy.origin.encode())
                    there[copy.offset].append((message.queue_offset, parts))
        identity = self._reading.job.options.identity.source.encode()
        for run in runs:
            async for message in self._reading.source(max(start, run * _RUN), min(end, (run + 1) * _RUN)):
                origin = properties.find(message.properties, ORIGIN) or identity
                self._judge(message, _Parts.of(message, message.store_timestamp, origin), there)
        for offset, copies in sorted(there.items()):
            for target, _ in copies:
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
        if first[0] in self._copies.behind[offset // _RUN]:
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
    def of(cls, message: StoredMessage, stored: int, origin: bytes) -> _Parts:
        digest = hashlib.blake2b(message.body, digest_size=16).digest()
        kept = (message.sys_flag & KEPT_SYS_FLAGS, message.reconsume_times)
        return cls(digest, message.flag, _own(message.properties), kept, origin, stored)

    def changes(self, copy: _Parts) -> Iterable[tuple[str, str]]:
        """The kinds of what `copy` has otherwise, each with what is otherwise."""
        if self.stored != copy.stored:
            yield "stale", f"stored at {self.stored} there, the copy was made of one stored at {copy.stored}"
        if self.body != copy.body:
            yield "body", f"{self.body.hex()[:12]} became {copy.body.hex()[:12]} (BLAKE2b)"
        if self.flag != copy.flag:
            yield "flag", f"{self.flag} became {copy.flag}"
        if self.own != copy.own:
            names = sorted({part.partition(b"\x01")[0] for part in set(self.own) ^ set(copy.own)})
            yield "properties", b", ".join(names).decode(errors="replace")
        if self.header != copy.header:
            yield "header", f"compression and reconsume times {self.header} became {copy.header}"
        if self.origin != copy.origin:
            yield "origin", f"{self.origin.decode()} became {copy.origin.decode()}"


def _own(raw: bytes) -> list[bytes]:
    """Properties without ours and the brokers'; brokers may change the order of single sends."""
    return sorted(part for part in raw.split(b"\x02") if part and not part.startswith(_NOT_OWN))


def _digest(message: StoredMessage, offset: int, stored: int, origin: bytes) -> int:
    head = b"%d %d %d %d %d %b\x02" % (
        offset,
        stored,
        message.flag,
        message.sys_flag & KEPT_SYS_FLAGS,
        message.reconsume_times,
        origin,
    )
    digest = hashlib.blake2b(head, digest_size=8)
    digest.update(message.body)  # its length stands in front of it
    digest.update(b"\x02".join(_own(message.properties)))
    return int.from_bytes(digest.digest())


def _name(part: Range) -> str:
    return f"{part.target_topic}/{part.target.broker}/{part.target.queue_id}"
