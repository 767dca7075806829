"""Metrics: each connector's own, also where two copy the same topic; no other than are in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.errors import BrokerRefused
from replicator.observe.metrics import process_registry, render
from replicator.observe.numbers import Snapshot
from replicator.routing.queue_map import Queue
from replicator.routing.state import LATENCY_BUCKETS, Phase, QueueState


def _queue(route: str, copied: int, skipped: Mapping[str, int]) -> QueueState:
    state = QueueState("T", Queue("a", 0), Queue("b", 0), route=route)
    state.counters.copied, state.counters.skipped, state.phase = copied, dict(skipped), Phase.RUNNING
    return state


def _snapshot(states: list[QueueState], **samples: Any) -> Snapshot:
    found = Snapshot(always={"source": "s", "target": "t"}, phases=list(Phase), buckets=LATENCY_BUCKETS)
    for state in states:
        found.add(state, 0.0)
    found.samples = samples
    return found


def test_two_connectors_with_one_topic_do_not_mix() -> None:
    """Their series are apart."""
    states = [_queue("one", 3, {}), _queue("one", 4, {}), _queue("two", 5, {"transform": 9})]
    states[2].counters.error(BrokerRefused("b:1", 310, 2, "busy"))
    page = render(_snapshot(states), process_registry()).decode()
    for connector, copied in (("one", 7), ("two", 5)):
        line = f'messages_replicated_total{{connector="{connector}",source="s",target="t",topic="T"}} {copied}.0'
        assert line in page
    skipped = 'messages_skipped_total{connector="two",reason="transform",source="s",target="t",topic="T"} 9.0'
    assert skipped in page
    assert 'queues{connector="one",source="s",state="running",target="t",topic="T"} 2.0' in page
    error = 'code="system_busy",connector="two",outcome="broker_refused",source="s",target="t",topic="T"'
    assert f"errors_total{{{error}}} 1.0" in page
    assert "process_cpu_seconds_total" in page
