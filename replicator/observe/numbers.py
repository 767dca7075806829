"""The figures of one moment: what /metrics, /status and the terminal show, added up in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, attrgetter
from typing import Final, NamedTuple, Protocol

from replicator.aio import clock

__all__ = ["QueueView", "Sample", "Snapshot", "TopicNumbers"]

#: Values of a metric's labels, in the catalogue's order, and its value.
Sample = tuple[Sequence[str], float]


class ProgressView(Protocol):
    """What is read of how far a queue is."""

    @property
    def in_flight(self) -> int: ...

    @property
    def lag(self) -> int: ...

    def lag_seconds(self, now: float) -> float: ...


class CountersView(Protocol):
    """What is read of a queue's counters."""

    batches: int
    copied: int
    copied_bytes: int
    skipped: dict[str, int]
    errors: dict[tuple[str, str], int]
    gaps: int
    resets: int
    target_lost: int
    late: int
    duplicates: int
    foreign: int
    retries: int
    restored: dict[str, int]
    restored_skipped: dict[str, int]
    latency: list[int]
    latency_sum: float

    @property
    def copied_in_all(self) -> int: ...

    @property
    def source_wait(self) -> float: ...

    @property
    def target_wait(self) -> float: ...


class AuditView(Protocol):
    """What is read of a queue's audit trail; the first three since the route began, `before` of them elsewhere."""

    verified: int
    unverified: dict[str, int]
    differences: dict[str, int]

    @property
    def before(self) -> tuple[int, dict[str, int], dict[str, int]]: ...

    def age(self, now: float) -> float: ...


class EndedView(Protocol):
    """What is read of a queue that has ended here; `audited` as `AuditView.before`, of this process alone."""

    @property
    def counters(self) -> CountersView: ...

    @property
    def audited(self) -> tuple[int, dict[str, int], dict[str, int]]: ...


class QueueView(Protocol):
    """What is read of one queue."""

    route: str
    topic: str
    reason: str
    stalled: bool

    @property
    def phase(self) -> str: ...

    @property
    def progress(self) -> ProgressView: ...

    @property
    def counters(self) -> CountersView: ...

    @property
    def audit(self) -> AuditView: ...


#: What is added up over a topic's queues, by where a queue has it.
_ADDED: Final = {
    path.rpartition(".")[2]: path
    for path in (
        *("counters.batches", "counters.copied", "counters.copied_bytes", "counters.copied_in_all"),
        *("counters.foreign", "counters.gaps", "counters.duplicates", "counters.resets", "counters.retries"),
        *("counters.source_wait", "counters.target_lost", "counters.target_wait", "counters.late"),
        *("counters.latency_sum", "progress.in_flight", "progress.lag", "stalled"),
    )
}
#: Ten thousand queues are added up every two seconds.
_added: Final = attrgetter(*_ADDED.values())
_NOTHING: Final = (0,) * len(_ADDED)
#: Whether a queue that has ended here still counts in it: not in what it was like, nor in what all owners know.
_KEPT: Final = {name: path.startswith("counters.") and name != "copied_in_all" for name, path in _ADDED.items()}


class TopicNumbers:
    """The queues that one connector has of one topic, added up.

    `phases` count queues, and `reasons` has the first one of a phase.
    """

    __slots__ = (
        *("_sums", "differences", "errors", "lag_seconds", "phases", "reasons", "skipped"),
        *("unverified", "verified", "verified_age"),
    )

    def __init__(self) -> None:
        self._sums: Sequence[float] = _NOTHING
        self.skipped: dict[str, int] = {}
        self.errors: dict[tuple[str, str], int] = {}
        self.phases: dict[str, int] = {}
        self.reasons: dict[str, str] = {}
        self.lag_seconds = 0.0
        self.verified = 0
        self.verified_age = 0.0
        self.unverified: dict[str, int] = {}
        self.differences: dict[str, int] = {}

    @property
    def sums(self) -> dict[str, float]:
        """What is added up, by the queues' own names."""
        return dict(zip(_ADDED, self._sums, strict=True))

    @property
    def queues(self) -> int:
        return sum(self.phases.values())

    def add(self, queue: QueueView, now: float) -> None:
        """Adds `queue` as it is at `now`, seconds since the epoch."""
        self._sums = [*map(add, self._sums, _added(queue))]
        for reason, count in queue.counters.skipped.items():
            self.skipped[reason] = self.skipped.get(reason, 0) + count
        for error, count in queue.counters.errors.items():
            self.errors[error] = self.errors.get(error, 0) + count
        self.phases[queue.phase] = self.phases.get(queue.phase, 0) + 1
        if queue.reason:
            self.reasons.setdefault(queue.phase, queue.reason)
        self.lag_seconds = max(self.lag_seconds, queue.progress.lag_seconds(now))
        audit = queue.audit
        self.verified += audit.verified
        self.verified_age = max(self.verified_age, audit.age(clock.now()))
        for reason, count in audit.unverified.items():
            self.unverified[reason] = self.unverified.get(reason, 0) + count
        for kind, count in audit.differences.items():
            self.differences[kind] = self.differences.get(kind, 0) + count

    def leave_out(self, queue: QueueView) -> None:
        """Takes out of the sums what other owners or processes have counted of a queue."""
        counters, (verified, unverified, differences) = queue.counters, queue.audit.before
        self.verified -= verified
        for reason, count in unverified.items():
            self.unverified[reason] -= count
        for kind, count in differences.items():
            self.differences[kind] -= count
        if counters.restored:
            self._sums = [
                value - counters.restored.get(name, 0) for name, value in zip(_ADDED, self._sums, strict=True)
            ]
        for reason, count in counters.restored_skipped.items():
            self.skipped[reason] -= count

    def add_ended(self, ended: EndedView) -> None:
        """Adds what a queue has counted here before it ended; other owners and processes have not."""
        counters, (verified, unverified, differences) = ended.counters, ended.audited
        self.verified += verified
        for reason, count in unverified.items():
            self.unverified[reason] = self.unverified.get(reason, 0) + count
        for kind, count in differences.items():
            self.differences[kind] = self.differences.get(kind, 0) + count
        self._sums = [
            value + getattr(counters, name) - counters.restored.get(name, 0) if kept else value
            for (name, kept), value in zip(_KEPT.items(), self._sums, strict=True)
        ]
        for reason, count in counters.skipped.items():
            own = count - counters.restored_skipped.get(reason, 0)
            self.skipped[reason] = self.skipped.get(reason, 0) + own
        for error, count in counters.errors.items():
            self.errors[error] = self.errors.get(error, 0) + count


class Histogram(NamedTuple):
    """Messages by bucket, and their seconds added up."""

    counts: Sequence[int]
    seconds: float


@dataclass(slots=True)
class Snapshot:
    """All that /metrics says at one moment.

    `always` are the values of the labels that all have; `topics` is by connector and topic; `latency` is by
    connector, in buckets whose upper bounds are `buckets`, and one of what lies above. `samples` are of all other
    metrics, by their names in the catalogue.
    """

    always: Mapping[str, str]
    phases: Sequence[str]
    buckets: Sequence[float]
    topics: dict[tuple[str, str], TopicNumbers] = field(default_factory=dict)
    latency: dict[str, Histogram] = field(default_factory=dict)
    samples: dict[str, Iterable[Sample]] = field(default_factory=dict)

    def add(self, queue: QueueView, now: float) -> None:
        """Adds a queue as it is at `now`, its counters since this process began: as Prometheus expects them."""
        numbers = self.topics.setdefault((queue.route, queue.topic), TopicNumbers())
        numbers.add(queue, now)
        numbers.leave_out(queue)
        self._add_latency(queue.route, queue.counters)

    def add_ended(self, connector: str, topic: str, ended: EndedView) -> None:
        """Adds what a queue had counted that ended here: counters must not shrink, and grow again when it is back.

        Where nothing else is said of its topic any more, its counters end, too.
        """
        if (numbers := self.topics.get((connector, topic))) is not None:
            numbers.add_ended(ended)
        self._add_latency(connector, ended.counters)

    def _add_latency(self, connector: str, counters: CountersView) -> None:
        known = self.latency.get(connector) or Histogram([0] * (len(self.buckets) + 1), 0.0)
        counts = [a + b for a, b in zip(known.counts, counters.latency, strict=True)]
        self.latency[connector] = Histogram(counts, known.seconds + counters.latency_sum)
