"""The state of a queue as it goes between its owner and the Spark task that copies it."""

from __future__ import annotations

from typing import Any

import msgspec

from replicator.aio.clock import now
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_progress import QueueProgress, Seen
from replicator.routing.state import Phase, QueueCounters, QueueState
from replicator.routing.wait_timer import SOURCE, TARGET, WaitTimer

__all__ = ["Counters", "Known", "Progress", "Snapshot", "put", "snapshot"]

#: Fields that both forms have by one name and in one type.
_PROGRESS = (
    *("abandoned", "clean", "head_timestamp", "known_end", "max_offset", "position", "read_to", "resumed"),
    *("seen", "start", "store_timestamp", "target_end", "target_floor"),
)
_COUNTERS = (
    *("batches", "copied", "copied_before", "copied_bytes", "duplicates", "foreign", "foreign_offsets", "gaps"),
    *("late", "latency_sum", "lost", "lost_at_target", "reset_at", "resets", "retries", "skipped_to"),
    "target_lost",
)
_COPIED_COUNTERS = ("restored", "restored_skipped", "skipped")


class Progress(msgspec.Struct, frozen=True):
    """As `QueueProgress`; `runs` are those of the offset map from the source offset `runs_from` on; -1: all."""

    abandoned: int
    clean: bool
    head_timestamp: int
    known_end: int
    max_offset: int
    position: int | None
    read_to: int
    resumed: int | None
    seen: Seen | None
    start: int | None
    store_timestamp: int
    target_end: int | None
    target_floor: int
    runs_from: int
    runs: list[Interval]


class Counters(msgspec.Struct, frozen=True):
    """As `QueueCounters`; `errors` are (meaning, code, count), `waits` seconds for source and target."""

    batches: int
    copied: int
    copied_before: int
    copied_bytes: int
    duplicates: int
    foreign: int
    foreign_offsets: tuple[int, int] | None
    gaps: int
    late: int
    latency_sum: float
    lost: tuple[int, int]
    lost_at_target: tuple[int, int] | None
    reset_at: int | None
    resets: int
    retries: int
    skipped_to: int
    target_lost: int
    restored: dict[str, int]
    restored_skipped: dict[str, int]
    skipped: dict[str, int]
    errors: list[tuple[str, str, int]]
    latency: list[int]
    waits: tuple[float, float]


class Snapshot(msgspec.Struct, frozen=True):
    """The state of the queue `key`; `ended` says that its task has drained it, and sends nothing of it any more.

    `audit` is the record of its audit trail, None if there is none, and `audit_age` how old what it waits for is.
    """

    key: str
    phase: Phase
    reason: str
    stalled: bool
    progress: Progress
    counters: Counters
    audit: dict[str, Any] | None
    audit_age: float
    ended: bool = False


class Known:
    """What the other side knows of a queue's offset map, so that only what is new is sent."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._rewound = 0

    def news(self, offsets: OffsetMap) -> tuple[int, list[Interval]]:
        """`runs_from` and `runs` that bring the other side up to date."""
        last, self._last = self._last, offsets.last
        if last is None or offsets.rewound != self._rewound:
            self._rewound = offsets.rewound
            return -1, list(offsets)
        return last[0], list(offsets.since(last[0]))


def snapshot(state: QueueState, known: Known, *, ended: bool = False) -> Snapshot:
    """What the other side is to know of `state` now."""
    progress, counters = state.progress, state.counters
    runs_from, runs = known.news(progress.offsets)
    return Snapshot(
        state.key,
        state.phase,
        state.reason,
        state.stalled,
        Progress(**{name: getattr(progress, name) for name in _PROGRESS}, runs_from=runs_from, runs=runs),
        msgspec.convert(_counted(counters), Counters),
        state.audit.record(),
        state.audit.age(now()),
        ended,
    )


def _counted(counters: QueueCounters) -> dict[str, Any]:
    return {
        **{name: getattr(counters, name) for name in (*_COUNTERS, *_COPIED_COUNTERS)},
        "errors": [(*name, count) for name, count in counters.errors.items()],
        "latency": counters.latency,
        "waits": (counters.source_wait, counters.target_wait),
    }


def put(state: QueueState, found: Snapshot) -> None:
    """Makes `state` what the other side says it is."""
    state.set_phase(found.phase, found.reason)
    state.stalled = found.stalled
    _put_progress(state.progress, found.progress)
    _put_counters(state.counters, found.counters)
    if found.audit is not None:
        before = state.audit.before
        state.audit.latest.clear()
        state.audit.restore(found.audit)
        state.audit.before, state.audit.aged = before, found.audit_age


def _put_progress(progress: QueueProgress, found: Progress) -> None:
    for name in _PROGRESS:
        setattr(progress, name, getattr(found, name))
    if found.runs_from < 0:
        progress.offsets = OffsetMap(Interval(*run) for run in found.runs)
        return
    progress.offsets.cut(found.runs_from)
    for run in found.runs:
        progress.offsets.add(*run)


def _put_counters(counters: QueueCounters, found: Counters) -> None:
    for name in _COUNTERS:
        setattr(counters, name, getattr(found, name))
    for name in _COPIED_COUNTERS:
        setattr(counters, name, dict(getattr(found, name)))
    counters.errors = {(meaning, code): count for meaning, code, count in found.errors}
    counters.latency = list(found.latency)
    counters.waits = WaitTimer(found.waits[SOURCE], found.waits[TARGET])
