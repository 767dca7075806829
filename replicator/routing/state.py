"""The state of the copy of one queue: its progress, its counters, and its phase.

Written by the tasks of that queue only; read by status, metrics and the state store.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from replicator.aio.clock import now
from replicator.errors import ReplicatorError
from replicator.routing.audit_counts import AuditCounts
from replicator.routing.audit_trail import AuditTrail
from replicator.routing.faults import code_of, kind_of
from replicator.routing.packing import Pack
from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import QueueProgress
from replicator.routing.recovery import CopyRecord
from replicator.routing.task_id import TaskId
from replicator.routing.wait_timer import SOURCE, TARGET, WaitTimer

__all__ = ["LATENCY_BUCKETS", "Phase", "QueueState", "Tally"]

#: Seconds; upper bounds of the histogram of source store time to acknowledgement.
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


#: Counters of what should not happen: they belong to the route, and outlive processes and owners.
_ANOMALIES: Final = ("gaps", "resets", "target_lost", "duplicates", "foreign", "late")
#: What says which of these were counted already.
_COUNTED: Final = ("lost", "reset_at", "lost_at_target")


class Phase(StrEnum):
    """How a queue is doing, as Kafka Connect writes states."""

    STARTING = "STARTING"
    BACKFILLING = "BACKFILLING"
    RECOVERING = "RECOVERING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    PAUSED = "PAUSED"
    UNASSIGNED = "UNASSIGNED"


#: Phases of a queue that does not copy, though it should.
_HELD: Final = (Phase.RECOVERING, Phase.WAITING, Phase.FAILED)


class QueueCounters:
    """What was counted of a queue since the process began; a queue that comes back here counts on.

    Anomalies (gaps, resets, losses, duplicates, messages of others) and skipped messages are counted since the
    route began, by all who had the queue: an owner begins with what the last one published.
    """

    __slots__ = (
        "batches",
        "copied",
        "copied_before",
        "copied_bytes",
        "duplicates",
        "errors",
        "foreign",
        "foreign_offsets",
        "gaps",
        "late",
        "latency",
        "latency_sum",
        "lost",
        "lost_at_target",
        "reset_at",
        "resets",
        "restored",
        "restored_skipped",
        "retries",
        "skipped",
        "skipped_to",
        "target_lost",
        "waits",
    )

    def __init__(self) -> None:
        self.batches = 0
        """Batches that the target has acknowledged."""

        self.copied = 0
        """Messages that the target has acknowledged."""

        self.copied_bytes = 0
        """Bytes of these: bodies and properties."""

        self.copied_before = 0
        """Messages copied by the queue's earlier owners, as far as they are known."""

        self.skipped: dict[str, int] = {}
        """Messages skipped, by reason."""

        self.skipped_to = 0
        """The source offset up to which they are counted: what is read again is not counted again."""

        self.restored: dict[str, int] = {}
        """Of the anomalies, those that other owners or processes have counted."""

        self.restored_skipped: dict[str, int] = {}
        """Of the skipped messages, by reason, those that other owners or processes have counted."""

        self.gaps = 0
        """Messages that the source lost before they were read."""

        self.lost = (0, 0)
        """The source offsets [start, end) that `gaps` counted last. What stops a queue is met again at each
        attempt, and counts once."""

        self.resets = 0
        """Times that the source queue was found truncated or recreated."""

        self.reset_at: int | None = None
        """The position of the reset that was counted last, until the copy has passed it."""

        self.target_lost = 0
        """Messages that the target had acknowledged and then lost."""

        self.lost_at_target: tuple[int, int] | None = None
        """First source offset and number of those that `target_lost` counted last, until they are copied again."""

        self.duplicates = 0
        """Copies found more than once at the target."""

        self.foreign = 0
        """Messages of others found in the target queue."""
        self.foreign_offsets: tuple[int, int] | None = None
        """The first and the last target offset of those that were looked at."""

        self.late = 0
        """Messages that were at the source alone when its death was declared, copied since."""

        self.retries = 0
        """Sends that the target refused temporarily."""

        self.errors: dict[tuple[str, str], int] = {}
        """Errors by what each meant for the queue, and by its code."""

        self.waits = WaitTimer()
        """How long it has waited for the source, and for the target."""

        self.latency = [0] * (len(LATENCY_BUCKETS) + 1)
        """Messages by the time from their storing at the source to the acknowledgement: a bucket each, and one for
        what took longer than the last."""

        self.latency_sum = 0.0
        """These times added up, in seconds."""

    def observe(self, packs: Iterable[Pack], source_now_ms: float) -> None:
        """Counts latencies: exactly in the buckets; their sum as if each pack's were spread evenly.

        Args:
            source_now_ms: the time now, by the source's clock.
        """
        for pack in packs:
            stored = pack.stored
            high, low = max(0.0, (source_now_ms - stored[0]) / 1000), max(0.0, (source_now_ms - stored[-1]) / 1000)
            bucket = bisect_left(LATENCY_BUCKETS, high)
            if bucket == bisect_left(LATENCY_BUCKETS, low):
                self.latency[bucket] += len(stored)
            else:
                for each in stored:
                    seconds = max(0.0, (source_now_ms - each) / 1000)
                    self.latency[bisect_left(LATENCY_BUCKETS, seconds)] += 1
            self.latency_sum += len(stored) * (high + low) / 2

    @property
    def copied_in_all(self) -> int:
        """Messages copied since the route began, by any worker."""
        return self.copied_before + self.copied

    @property
    def source_wait(self) -> float:
        """Seconds that there was nothing to send."""
        return self.waits.seconds(SOURCE)

    @property
    def target_wait(self) -> float:
        """Seconds that the target had a send to answer, or was left alone because it was busy."""
        return self.waits.seconds(TARGET)

    def error(self, fault: ReplicatorError) -> None:
        """Counts `fault`."""
        name = kind_of(fault), code_of(fault)
        self.errors[name] = self.errors.get(name, 0) + 1

    def found_foreign(self, offset: int) -> None:
        """Counts the message of somebody else at a target offset."""
        self.foreign += 1
        first, last = self.foreign_offsets or (offset, offset)
        self.foreign_offsets = min(first, offset), max(last, offset)

    def skip(self, reason: str, count: int) -> None:
        """Counts `count` messages left out for `reason`."""
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def unread(self, start: int, end: int, offsets: Iterable[int]) -> int:
        """Offsets in [start, end) that are not among `offsets`, and were not read before."""
        since = max(start, self.skipped_to)
        return max(0, end - since) - sum(offset >= since for offset in offsets)

    def read_up_to(self, end: int) -> None:
        """All before the source offset `end` is counted: read again, it is not counted again."""
        self.skipped_to = max(end, self.skipped_to)

    def anomalies(self) -> dict[str, Any]:
        """The counters that outlive this owner, as JSON; those that are 0 are left out."""
        found: dict[str, Any] = {name: value for name in _ANOMALIES if (value := getattr(self, name))}
        if self.skipped:
            found |= {"skipped": dict(self.skipped), "skipped_to": self.skipped_to}
        for name in _COUNTED:
            value = getattr(self, name)
            if value not in (None, (0, 0)):
                found[name] = list(value) if isinstance(value, tuple) else value
        return found

    def restore(self, anomalies: Mapping[str, Any]) -> None:
        """Counts on from the `anomalies` of the last owner, unless it had counted less than is known here."""
        newer = False
        resets, skipped_to = anomalies.get("resets", 0), anomalies.get("skipped_to", 0)
        if (resets, skipped_to) > (self.resets, self.skipped_to):
            self.skipped_to = skipped_to
        for name in _ANOMALIES:
            if (more := anomalies.get(name, 0) - getattr(self, name)) > 0:
                setattr(self, name, anomalies[name])
                self.restored[name] = self.restored.get(name, 0) + more
                newer = True
        for reason, count in anomalies.get("skipped", {}).items():
            if (more := count - self.skipped.get(reason, 0)) > 0:
                self.skipped[reason] = count
                self.restored_skipped[reason] = self.restored_skipped.get(reason, 0) + more
        for name in _COUNTED if newer else ():
            if (value := anomalies.get(name)) is not None:
                setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def lose(self, start: int, end: int) -> None:
        """Counts what has not been counted yet of the messages at source offsets [start, end), which are gone."""
        low, high = self.lost
        again = max(0, min(end, high) - max(start, low))
        self.gaps += end - start - again
        self.lost = (min(start, low), max(end, high)) if again else (start, end)


class QueueState:
    """The state of the copy of one queue."""

    __slots__ = (
        *("audit", "counters", "held_at", "key", "made", "phase", "progress", "reason"),
        *("route", "source", "stalled", "target", "throttled", "topic"),
    )

    def __init__(self, topic: str, source: Queue, target: Queue, *, route: str = "") -> None:
        self.route = route
        """The connector that copies it."""

        self.topic = topic
        """Its topic at the source."""

        self.source = source
        """The queue that is copied."""

        self.target = target
        """The queue that it is copied to."""

        self.key = str(TaskId(route, topic, source))
        """Its name among all queues of all routes, and that of its records in the shared state."""

        self.made = 0
        """What tells its connector from an earlier one of the name."""

        self.phase = Phase.STARTING
        """How it is doing."""

        self.reason = ""
        """Why it waits or has failed; empty otherwise."""

        self.held_at: float | None = None
        """When, by `now()`, it stopped copying because it recovers, waits or has failed; None while it copies."""

        self.stalled = False
        """Whether it makes no progress though there is something to copy, and a restart did not help."""

        self.throttled = False
        """Whether it waits for its turn within a rate limit."""

        self.progress = QueueProgress()
        """How far the copy is."""

        self.counters = QueueCounters()
        """What was counted of it."""

        self.audit = AuditTrail()
        """What is to be read back at the target, and what was."""

    def set_phase(self, phase: Phase, reason: str = "") -> None:
        self.phase = phase
        self.reason = reason
        if phase not in _HELD:
            self.held_at = None
        elif self.held_at is None:
            self.held_at = now()

    def tally(self) -> Tally:
        """The counters, and what says which of them were counted already, for the queue's next owner."""
        self.counters.waits.end()
        return Tally(self.counters, self.progress.known_end, self.audit.counted, self.made)

    def count_on(self, tally: Tally) -> None:
        """Continues counting from `tally`. It is part of what was restored: others may have had the queue since.

        That of an earlier connector of the name is left out: its losses would be taken for counted here.
        """
        if tally.made != self.made:
            return
        restored = self.counters
        self.counters = tally.counters
        self.audit.count_on(tally.audited)
        self.progress.known_end = max(tally.known_end, self.progress.known_end)
        self.counters.copied_before = max(0, restored.copied_before - self.counters.copied)
        self.counters.restore(restored.anomalies())

    def reset(self) -> None:
        """Counts that the source queue is not what was copied, and what was not read of it, unless that has been
        counted.
        """
        counters, progress = self.counters, self.progress
        if counters.reset_at != progress.position:
            counters.resets += 1
            counters.reset_at = progress.position
            if progress.position is not None and progress.position < progress.known_end:
                counters.lose(progress.position, progress.known_end)
            progress.known_end = 0
            counters.lost, counters.skipped_to = (0, 0), 0

    def count_left_out(self) -> None:
        """Counts what transforms have left out before the position. Whatever comes after it is read again."""
        progress, position = self.progress, self.progress.position or 0
        if not progress.left_out:
            return
        self.counters.skip("transform", sum(offset < position for offset in progress.left_out))
        progress.left_out = [offset for offset in progress.left_out if offset >= position]

    def lose_at_target(self, last: CopyRecord | None) -> tuple[int, int]:
        """Counts acknowledged copies after `last`, the last one that the target still has, as lost there, unless
        that has been counted.

        Returns:
            the source offset of the first of them, and how many there are.
        """
        progress, counters = self.progress, self.counters
        if last is not None:
            first = last.source + 1
        else:
            first = progress.begin if progress.begin is not None else next(iter(progress.offsets)).source
        count = progress.offsets.count_from(first)
        if counters.lost_at_target != (first, count):
            counters.target_lost += count
            counters.lost_at_target = (first, count)
            self.audit.cut(first)
        return first, count

    def lose_abandoned(self) -> int:
        """Counts the copies at a target queue that was given up as lost there, once; how many there are."""
        lost, self.progress.abandoned = self.progress.abandoned, 0
        self.counters.target_lost += lost
        return lost

    def copy_again(self, first: int) -> None:
        """The copy continues from the source offset `first`, as if nothing after it had ever been copied."""
        self.progress.offsets.cut(first)
        self.progress.position = first
        self.progress.seen = None
        self.counters.lost_at_target = None


class Tally(NamedTuple):
    """What was counted of a queue that has ended here, of the connector that `made` names; `known_end` is that of
    its progress.
    """

    counters: QueueCounters
    known_end: int
    audited: AuditCounts
    made: int
