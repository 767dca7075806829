"""Prometheus metrics, read from the queues' own counters when somebody scrapes: nothing on the data path."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["QueueView", "WorkerView", "make_registry"]

_PREFIX = "rocketmq_replicator_"


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
    def ignored(self) -> Mapping[str, int]: ...


class _TopicSums:
    """The queues that one connector has of one topic, added up."""

    def __init__(self) -> None:
        self.numbers = dict.fromkeys(
            ("batches", "copied", "copied_bytes", "gaps", "resets", "repeated", "foreign", "retries", "lag"), 0
        )
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


#: Name, kind, help, attribute of `_TopicSums.numbers`.
_PER_TOPIC = (
    ("messages_replicated", "counter", "Messages that the target has acknowledged.", "copied"),
    ("batches_sent", "counter", "Batches that the target has acknowledged.", "batches"),
    ("bytes_replicated", "counter", "Bytes sent to the target for them, bodies and properties.", "copied_bytes"),
    ("source_gap_messages", "counter", "Messages that the source lost before they were read.", "gaps"),
    ("source_resets", "counter", "Source queues found truncated or made anew.", "resets"),
    ("repeated_messages", "counter", "Copies found more than once in a target queue.", "repeated"),
    ("foreign_messages", "counter", "Messages of others found in a mapped target queue.", "foreign"),
    ("send_retries", "counter", "Sends that the target refused for the moment.", "retries"),
    ("lag_messages", "gauge", "Messages that the source has and the target has not.", "lag"),
)


class _Worker(Collector):
    def __init__(
        self, worker: WorkerView, buckets: Sequence[float], phases: Iterable[str], labels: Mapping[str, str]
    ) -> None:
        self._worker = worker
        self._buckets = [*(str(bound) for bound in buckets), "+Inf"]
        self._phases = list(phases)
        self._names = list(labels)
        self._values = list(labels.values())

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
        yield self._gauge("memory_used_bytes", "Memory held by messages under way.", self._worker.memory_used)
        yield self._gauge(
            "refresh_last_success_timestamp_seconds", "Last look at both clusters.", self._worker.refreshed_at
        )
        yield self._gauge("checkpoint_last_success_timestamp_seconds", "Last state on disk.", self._worker.saved_at)
        throttled = CounterMetricFamily(
            _PREFIX + "throttled_seconds", "Time that batches waited for the rate limits.", labels=self._names
        )
        throttled.add_metric(self._values, self._worker.throttled_seconds)
        yield throttled
        yield from self._group()

    def _group(self) -> Iterator[Metric]:
        worker = self._worker
        yield self._gauge("group_members", "Workers of the group that this one sees, itself too.", worker.members)
        yield self._gauge("assignment_generation", "Number of the assignment that is in force.", worker.generation)
        yield self._gauge("tasks", "Tasks that run here.", worker.tasks)
        yield self._gauge("lease_held", "Whether this worker may send: 1, or 0.", worker.holds_lease)
        ignored = CounterMetricFamily(
            _PREFIX + "control_messages_ignored",
            "Messages on the system topics that no worker of this version wrote.",
            labels=[*self._names, "kind"],
        )
        for kind, count in worker.ignored.items():
            ignored.add_metric([*self._values, kind], count)
        yield ignored

    def _per_topic(self, topics: Mapping[tuple[str, str], _TopicSums]) -> Iterator[Metric]:
        names = [*self._names, "connector", "topic"]
        for name, kind, text, attribute in _PER_TOPIC:
            family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(
                _PREFIX + name, text, labels=names
            )
            for topic, sums in topics.items():
                family.add_metric([*self._values, *topic], sums.numbers[attribute])
            yield family
        seconds = GaugeMetricFamily(
            _PREFIX + "lag_seconds", "Age of the newest copied message where there is a lag, else 0.", labels=names
        )
        skipped = CounterMetricFamily(
            _PREFIX + "messages_skipped", "Messages left out, by reason.", labels=[*names, "reason"]
        )
        queues = GaugeMetricFamily(_PREFIX + "queues", "Source queues by state.", labels=[*names, "state"])
        for topic, sums in topics.items():
            seconds.add_metric([*self._values, *topic], sums.lag_seconds)
            for reason, count in sums.skipped.items():
                skipped.add_metric([*self._values, *topic, reason], count)
            for phase in self._phases:
                queues.add_metric([*self._values, *topic, phase], sums.phases.get(phase, 0))
        yield seconds
        yield skipped
        yield queues

    def _latency(self, counts: Sequence[int], total: float) -> Metric:
        family = HistogramMetricFamily(
            _PREFIX + "replication_latency_seconds",
            "From being stored at the source to being acknowledged by the target.",
            labels=self._names,
        )
        running = 0
        buckets = []
        for bound, count in zip(self._buckets, counts, strict=True):
            running += count
            buckets.append((bound, float(running)))
        family.add_metric(self._values, buckets=buckets, sum_value=total)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(_PREFIX + name, text, labels=self._names)
        family.add_metric(self._values, value)
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
        family = GaugeMetricFamily(_PREFIX + "build_info", "The program's version.", labels=["version"])
        family.add_metric([self._version], 1)
        yield family
