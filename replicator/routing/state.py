"""What is known of one queue on its way: progress, counters, and how it is doing.

Written by the tasks of that queue only; read by status, metrics and the state store.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from replicator.errors import ReplicatorError
from replicator.routing.faults import code_of, kind_of
from replicator.routing.offset_map import OffsetMap
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import CopyRecord
from replicator.routing.task_id import TaskId
from replicator.routing.wait_timer import SOURCE, TARGET, WaitTimer

__all__ = ["LATENCY_BUCKETS", "Phase", "QueueState", "Tally"]

#: Counters of a queue by their names, when it has ended.
Tally = dict[str, Any]

#: Seconds; upper bounds of the histogram of source store time to acknowledgement.
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


_COUNTERS: Final = (
    *("batches", "copied", "copied_bytes", "errors", "foreign", "gaps", "latency", "latency_sum", "repeated"),
    *("resets", "retries", "skipped", "waits", "lost", "reset_at", "known_end", "target_lost", "lost_at_target"),
)


class Phase(StrEnum):
    """How a queue is doing."""

    STARTING = "starting"
    BACKFILLING = "backfilling"
    RECOVERING = "recovering"
    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"
    STOPPED = "stopped"


class QueueState:
    """Progress and counters of one queue.

    `key` names it among all queues of all routes. `start` is the source offset where its copy began.
    `position` is the next source offset that is not settled: all before it are acknowledged by the target, or
    left out for a reason that was counted. `target_end` is the offset that the next message gets in the
    target queue if nobody else writes there; None before it has been looked up. Copies below `target_floor`
    are of a source queue that no longer exists. `stalled` says that it makes no progress though there is
    something to copy, and that a restart did not help. Counters count since the process began; `copied_before`
    messages were copied by those that had the queue before, as far as they could tell. `read_to` is the source
    offset after all that was pulled. `store_timestamp` is of the newest copied message, `head_timestamp` of the
    oldest one that is on its way (0: none is), both by the source broker's clock, which is `skew` seconds ahead
    of ours. `errors` counts by what an error meant for the queue, and by its code. `lost` are the source offsets
    [start, end) that `gaps` counted last, `reset_at` is the position of the reset that `resets` counted last until
    the copy has gone on behind it: what stops a queue is met again at each attempt, and counts once. Up to
    `known_end` the source queue had messages when it was pulled from, whatever became of them.
    """

    __slots__ = (
        "batches",
        "clean",
        "copied",
        "copied_before",
        "copied_bytes",
        "errors",
        "foreign",
        "gaps",
        "head_timestamp",
        "key",
        "known_end",
        "latency",
        "latency_sum",
        "lost",
        "lost_at_target",
        "max_offset",
        "offsets",
        "phase",
        "position",
        "read_to",
        "reason",
        "repeated",
        "reset_at",
        "resets",
        "retries",
        "route",
        "skew",
        "skipped",
        "source",
        "stalled",
        "start",
        "store_timestamp",
        "target",
        "target_end",
        "target_floor",
        "target_lost",
        "topic",
        "waits",
    )

    def __init__(self, topic: str, source: Queue, target: Queue, *, route: str = "") -> None:
        self.route = route
        self.topic = topic
        self.source = source
        self.key = str(TaskId(route, topic, source))
        self.target = target
        self.phase = Phase.STARTING
        self.reason = ""
        self.stalled = False
        self.position: int | None = None
        self.start: int | None = None
        self.max_offset = 0
        self.known_end = 0
        self.target_end: int | None = None
        self.target_floor = 0
        self.clean = False
        self.offsets = OffsetMap()
        self.read_to = 0
        self.store_timestamp = 0
        self.head_timestamp = 0
        self.skew = 0.0
        self.batches = 0
        self.copied = 0
        self.copied_before = 0
        self.copied_bytes = 0
        self.skipped: dict[str, int] = {}
        self.gaps = 0
        self.lost = (0, 0)
        self.resets = 0
        self.reset_at: int | None = None
        self.repeated = 0
        self.target_lost = 0
        self.lost_at_target: tuple[int, int] | None = None
        self.foreign = 0
        self.retries = 0
        self.errors: dict[tuple[str, str], int] = {}
        self.waits = WaitTimer()
        self.latency = [0] * (len(LATENCY_BUCKETS) + 1)
        self.latency_sum = 0.0

    @property
    def lag(self) -> int:
        """Messages that the source has and the target has not."""
        return 0 if self.position is None else max(0, self.max_offset - self.position)

    @property
    def in_flight(self) -> int:
        """Messages pulled and not settled yet, by their offsets."""
        return 0 if self.position is None else max(0, self.read_to - self.position)

    @property
    def last(self) -> CopyRecord | None:
        """The last copy that the target acknowledged."""
        if self.offsets.last is None:
            return None
        source, target = self.offsets.last
        return CopyRecord(source, self.store_timestamp, target)

    @property
    def source_wait(self) -> float:
        """Seconds that there was nothing to send."""
        return self.waits.seconds(SOURCE)

    @property
    def target_wait(self) -> float:
        """Seconds that the target had a send to answer."""
        return self.waits.seconds(TARGET)

    def lag_seconds(self, now: float) -> float:
        """Age at `now` of the oldest message that the target lacks: 0 without a lag.

        Of the newest copied one while the oldest missing one is not known, and 0 while neither is.
        """
        stamp = self.head_timestamp or self.store_timestamp
        return max(0.0, now + self.skew - stamp / 1000) if self.lag and stamp else 0.0

    @property
    def copied_in_all(self) -> int:
        """Messages copied since the route began, whoever did it."""
        return self.copied_before + self.copied

    def tally(self) -> Tally:
        """The counters, for whoever has the queue next in this process."""
        self.waits.end()
        return {name: getattr(self, name) for name in _COUNTERS}

    def count_on(self, tally: Tally) -> None:
        """Goes on counting from `tally`, what was copied then being part of what was restored."""
        for name, value in tally.items():
            setattr(self, name, value)
        self.copied_before = max(0, self.copied_before - self.copied)

    def set_phase(self, phase: Phase, reason: str = "") -> None:
        self.phase = phase
        self.reason = reason

    def error(self, fault: ReplicatorError) -> None:
        """Counts `fault`."""
        name = kind_of(fault), code_of(fault)
        self.errors[name] = self.errors.get(name, 0) + 1

    def lose(self, start: int, end: int) -> None:
        """Counts what has not been counted yet of the messages at source offsets [start, end), which are gone."""
        low, high = self.lost
        again = max(0, min(end, high) - max(start, low))
        self.gaps += end - start - again
        self.lost = (min(start, low), max(end, high)) if again else (start, end)

    def reset(self) -> None:
        """Counts that the source queue is not what was copied, and what was not read of it, unless that has been
        counted.
        """
        if self.reset_at != self.position:
            self.resets += 1
            self.reset_at = self.position
            if self.position is not None and self.position < self.known_end:
                self.lose(self.position, self.known_end)
            self.known_end = 0
            self.lost = (0, 0)

    def lose_at_target(self, last: CopyRecord | None) -> tuple[int, int]:
        """Counts acknowledged copies behind `last`, the last one that the target still has, as lost there, unless
        that has been counted.

        Returns:
            the source offset of the first of them, and how many there are.
        """
        if last is not None:
            first = last.source + 1
        else:
            first = self.start if self.start is not None else next(iter(self.offsets)).source
        count = self.offsets.count_from(first)
        if self.lost_at_target != (first, count):
            self.target_lost += count
            self.lost_at_target = (first, count)
        return first, count

    def copy_again(self, first: int) -> None:
        """The copy goes on from the source offset `first`, as if what came behind had never been copied."""
        self.offsets.cut(first)
        self.position = first
        self.lost_at_target = None

    def skip(self, reason: str, count: int) -> None:
        """Counts `count` messages left out for `reason`."""
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count
