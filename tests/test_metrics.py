"""Metrics: each connector's own, also where two copy the same topic; and no other than are in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from replicator.observe.catalogue import ALWAYS, METRICS, PREFIX
from replicator.observe.metrics import make_registry
from replicator.routing.queue_map import Queue
from replicator.routing.state import LATENCY_BUCKETS, Phase, QueueState


def _queue(route: str, copied: int, skipped: Mapping[str, int]) -> QueueState:
    state = QueueState("T", Queue("a", 0), Queue("b", 0), route=route)
    state.copied, state.skipped, state.phase = copied, dict(skipped), Phase.RUNNING
    return state


def _registry(states: list[QueueState], **more: object) -> CollectorRegistry:
    numbers = (
        *("refreshed_at", "saved_at", "memory_used", "throttled_seconds"),
        *("members", "generation", "tasks", "fencings"),
    )
    given = {**dict.fromkeys(numbers, 0), "holds_lease": True, "ignored": {}, "sync": {}, **more}
    worker: Any = SimpleNamespace(states=states, **given)
    return make_registry(
        worker,
        buckets=LATENCY_BUCKETS,
        phases=list(Phase),
        labels=lambda: {"source": "s", "target": "t"},
        version="1",
    )


def test_two_connectors_with_one_topic_do_not_mix() -> None:
    """Their series are apart."""
    states = [_queue("one", 3, {}), _queue("one", 4, {}), _queue("two", 5, {"transform": 9})]
    page = generate_latest(_registry(states)).decode()
    for connector, copied in (("one", 7), ("two", 5)):
        line = f'messages_replicated_total{{connector="{connector}",source="s",target="t",topic="T"}} {copied}.0'
        assert line in page
    skipped = 'messages_skipped_total{connector="two",reason="transform",source="s",target="t",topic="T"} 9.0'
    assert skipped in page
    assert 'queues{connector="one",source="s",state="running",target="t",topic="T"} 2.0' in page


def test_what_is_scraped_is_what_is_in_the_catalogue() -> None:
    """No more, no less, each with its labels."""
    status = dict.fromkeys(("at", "applied", "failed", "blocked", "drift", "again", "skipped", "anywhere"), 0)
    states = [_queue("one", 3, {"transform": 9})]
    found: dict[str, set[str]] = {}
    for family in _registry(states, ignored={"newer": 1}, sync={"one": {"offsets": status}}).collect():
        for sample in family.samples:
            if sample.name.startswith(PREFIX):
                found.setdefault(family.name, set()).update(sample.labels)
    expected = {PREFIX + name: {*spec.labels, *ALWAYS} for name, spec in METRICS.items() if name != "build_info"}
    expected[PREFIX + "replication_latency_seconds"].add("le")
    assert found == {**expected, PREFIX + "build_info": {"version"}}
