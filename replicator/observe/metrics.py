"""Prometheus metrics, read from the queues' own counters when somebody scrapes: nothing on the data path."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from replicator.observe.catalogue import ALWAYS, METRICS, PREFIX

__all__ = ["QueueView", "WorkerView", "make_registry"]


class QueueView(Protocol):
    """What is read of one queue."""

    route: str
    topic: str
    batches: int
    copied: int
    copied_bytes: int
    skipped: dict[str, int]
    gaps: int
    resets: int
    repeated: int
    foreign: int
    retries: int
    latency: list[int]
    latency_sum: float
    store_timestamp: int
    stalled: bool

    @property
    def lag(self) -> int: ...

    @property
    def phase(self) -> str: ...


class WorkerView(Protocol):
    """What is read of the worker."""

    @property
    def refreshed_at(self) -> float: ...

    @property
    def saved_at(self) -> float: ...

    @property
    def states(self) -> Iterable[QueueView]: ...

    @property
    def memory_used(self) -> int: ...

    @property
    def throttled_seconds(self) -> float: ...

    @property
    def members(self) -> int: ...

    @property
    def generation(self) -> int: ...

    @property
    def tasks(self) -> int: ...

    @property
    def holds_lease(self) -> bool: ...

    @property
    def fencings(self) -> int: ...

    @property
    def ignored(self) -> Mapping[str, int]: ...

    @property
    def sync(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """How the metadata tasks that run here are doing: by connector and kind."""


#: Metrics that are sums over a topic's queues, by what is added up.
_SUMS: Final = {
    "messages_replicated": "copied",
    "batches_sent": "batches",
    "bytes_replicated": "copied_bytes",
    "source_gap_messages": "gaps",
    "source_resets": "resets",
    "repeated_messages": "repeated",
    "foreign_messages": "foreign",
    "send_retries": "retries",
    "lag_messages": "lag",
    "queues_stalled": "stalled",
}
#: Metrics of a kind of metadata, by their name in its status; and those of groups' offsets.
_SYNC: Final = {
    "sync_last_success_timestamp_seconds": "at",
    "sync_actions_applied": "applied",
    "sync_failed_actions": "failed",
    "sync_blocked_actions": "blocked",
    "sync_drift": "drift",
}
_GROUPS: Final = {
    "groups_read_again_messages": "again",
    "groups_skipped_messages": "skipped",
    "groups_queues_without_offset": "anywhere",
}

Family = CounterMetricFamily | GaugeMetricFamily


class _TopicSums:
    """The queues that one connector has of one topic, added up."""

    def __init__(self) -> None:
        self.numbers = dict.fromkeys(_SUMS.values(), 0)
        self.skipped: dict[str, int] = {}
        self.phases: dict[str, int] = {}
        self.lag_seconds = 0.0

    def add(self, queue: QueueView, now: float) -> None:
        for name in self.numbers:
            self.numbers[name] += getattr(queue, name)
        for reason, count in queue.skipped.items():
            self.skipped[reason] = self.skipped.get(reason, 0) + count
        self.phases[queue.phase] = self.phases.get(queue.phase, 0) + 1
        if queue.lag and queue.store_timestamp:
            self.lag_seconds = max(self.lag_seconds, now - queue.store_timestamp / 1000)


class _Worker(Collector):
    def __init__(
        self, worker: WorkerView, buckets: Sequence[float], phases: Iterable[str], labels: Mapping[str, str]
    ) -> None:
        self._worker = worker
        self._buckets = [*(str(bound) for bound in buckets), "+Inf"]
        self._phases = list(phases)
        self._values = [labels[name] for name in ALWAYS]

    def collect(self) -> Iterator[Metric]:
        now = time.time()
        topics: dict[tuple[str, str], _TopicSums] = {}
        histogram = [0] * len(self._buckets)
        latency_sum = 0.0
        for queue in self._worker.states:
            topics.setdefault((queue.route, queue.topic), _TopicSums()).add(queue, now)
            histogram = [a + b for a, b in zip(histogram, queue.latency, strict=True)]
            latency_sum += queue.latency_sum
        yield from self._per_topic(topics)
        yield self._latency(histogram, latency_sum)
        yield from self._plain()
        yield from self._sync()

    def _family(self, name: str, samples: Iterable[tuple[Sequence[str], float]]) -> Family:
        spec = METRICS[name]
        kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
        family: Family = kind(PREFIX + name, spec.text, labels=[*ALWAYS, *spec.labels])
        for labels, value in samples:
            family.add_metric([*self._values, *labels], value)
        return family

    def _plain(self) -> Iterator[Metric]:
        worker = self._worker
        for name, value in (
            ("memory_used_bytes", worker.memory_used),
            ("throttled_seconds", worker.throttled_seconds),
            ("refresh_last_success_timestamp_seconds", worker.refreshed_at),
            ("checkpoint_last_success_timestamp_seconds", worker.saved_at),
            ("group_members", worker.members),
            ("assignment_generation", worker.generation),
            ("tasks", worker.tasks),
            ("lease_held", worker.holds_lease),
            ("fencings", worker.fencings),
        ):
            yield self._family(name, [((), value)])
        yield self._family("control_messages_ignored", [((kind,), n) for kind, n in worker.ignored.items()])

    def _per_topic(self, topics: Mapping[tuple[str, str], _TopicSums]) -> Iterator[Metric]:
        for name, attribute in _SUMS.items():
            yield self._family(name, [(topic, sums.numbers[attribute]) for topic, sums in topics.items()])
        yield self._family("lag_seconds", [(topic, sums.lag_seconds) for topic, sums in topics.items()])
        yield self._family(
            "messages_skipped",
            [((*topic, why), count) for topic, sums in topics.items() for why, count in sums.skipped.items()],
        )
        yield self._family(
            "queues",
            [
                ((*topic, phase), sums.phases.get(phase, 0))
                for topic, sums in topics.items()
                for phase in self._phases
            ],
        )

    def _sync(self) -> Iterator[Metric]:
        sync = self._worker.sync
        for name, key in _SYNC.items():
            yield self._family(
                name, [((route, kind), told[key]) for route, kinds in sync.items() for kind, told in kinds.items()]
            )
        for name, key in _GROUPS.items():
            yield self._family(
                name, [((route,), kinds["offsets"][key]) for route, kinds in sync.items() if "offsets" in kinds]
            )

    def _latency(self, counts: Sequence[int], total: float) -> Metric:
        name = "replication_latency_seconds"
        family = HistogramMetricFamily(PREFIX + name, METRICS[name].text, labels=ALWAYS)
        running = 0
        buckets = []
        for bound, count in zip(self._buckets, counts, strict=True):
            running += count
            buckets.append((bound, float(running)))
        family.add_metric(self._values, buckets=buckets, sum_value=total)
        return family


def make_registry(
    worker: WorkerView,
    *,
    buckets: Sequence[float],
    phases: Iterable[str],
    labels: Callable[[], Mapping[str, str]],
    version: str,
) -> CollectorRegistry:
    """A registry with the worker's metrics and the process's own."""
    registry = CollectorRegistry()
    registry.register(_Worker(worker, buckets, phases, labels()))
    registry.register(_Build(version))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _Build(Collector):
    def __init__(self, version: str) -> None:
        self._version = version

    def collect(self) -> Iterator[Metric]:
        spec = METRICS["build_info"]
        family = GaugeMetricFamily(PREFIX + spec.name, spec.text, labels=spec.labels)
        family.add_metric([self._version], 1)
        yield family
