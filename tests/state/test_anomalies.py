"""Gaps, resets, losses and skips belong to the route: they outlive the process that counted them."""

from __future__ import annotations

from pathlib import Path

from replicator.observe.numbers import Snapshot
from replicator.routing.audit_segment import Difference
from replicator.routing.queue_map import Queue
from replicator.routing.state import LATENCY_BUCKETS, Phase, QueueState
from replicator.state.store import Store


def state() -> QueueState:
    made = QueueState("T", Queue("east/a", 3), Queue("west-a", 5))
    made.progress.position = 20
    return made


def saved(directory: Path, *states: QueueState) -> None:
    store = Store(directory)
    store.update(states)
    store.write(store.snapshot())
    store.close()


def restored(store: Store) -> QueueState:
    made = state()
    store.restore(made)
    return made


def test_anomalies_count_on(tmp_path: Path) -> None:
    """Gaps, resets, losses and skips are the route's: neither a restart nor a takeover sets them to 0."""
    first = state()
    first.counters.lose(20, 25)
    first.reset()
    first.counters.target_lost, first.counters.foreign = 4, 2
    first.counters.skip("filter", 9)
    saved(tmp_path, first)
    store = Store(tmp_path)
    second = restored(store)
    assert second.counters.anomalies() == first.counters.anomalies()
    second.reset()
    assert second.counters.resets == 1, "the same reset was counted before"
    second.counters.skip("filter", 1)
    store.update([second])
    third = restored(store)
    assert third.counters.skipped == {"filter": 10}
    store.close()


def test_metrics_count_since_the_process_began(tmp_path: Path) -> None:
    """As Prometheus expects of counters, which adds up what each process has counted."""
    first = state()
    first.counters.lose(20, 25)
    first.counters.skip("filter", 9)
    saved(tmp_path, first)
    store = Store(tmp_path)
    second = restored(store)
    second.counters.lose(30, 33)
    second.counters.skip("filter", 1)
    found = Snapshot(always={}, phases=list(Phase), buckets=LATENCY_BUCKETS)
    found.add(second, now=0)
    numbers = found.topics[second.route, second.topic]
    assert (numbers.sums["gaps"], numbers.skipped) == (3, {"filter": 1})
    assert (second.counters.gaps, second.counters.skipped) == (8, {"filter": 10})
    store.close()


def test_a_loss_at_a_standing_position_is_published(tmp_path: Path) -> None:
    """Nothing else of the queue changes while it has failed."""
    store, first = Store(tmp_path), state()
    store.update([first])
    first.counters.lose(20, 25)
    store.update([first])
    assert restored(store).counters.gaps == 5
    store.close()


def test_who_had_a_queue_before_counts_on_from_its_newest_owner(tmp_path: Path) -> None:
    """What another worker has counted meanwhile, and what it was counted of."""
    store, first = Store(tmp_path), state()
    first.counters.lose(20, 25)
    store.update([first])
    other = restored(store)
    other.counters.lose(30, 40)
    store.update([other])
    again = restored(store)
    again.count_on(first.tally())
    assert again.counters.gaps == 15
    again.counters.lose(30, 40)
    assert again.counters.gaps == 15
    store.close()


def test_what_an_earlier_connector_of_the_name_has_counted_is_not_counted_on(tmp_path: Path) -> None:
    """It was deleted: what the new one loses at the same offsets is lost, and is counted."""
    store, first = Store(tmp_path), state()
    first.counters.lose(10, 15)
    first.counters.copied, first.progress.known_end = 100, 1000
    again = state()
    again.made = first.made + 1
    again.count_on(first.tally())
    assert (again.counters.gaps, again.counters.copied, again.progress.known_end) == (0, 0, 0)
    again.counters.lose(10, 15)
    assert again.counters.gaps == 5
    store.close()


def test_the_audit_goes_on(tmp_path: Path) -> None:
    """How far a queue is verified and what differs are the route's; metrics count what this process has found."""
    first = state()
    first.audit.verified_to, first.audit.verified, first.audit.unverified = 15, 12, {"sampling": 3}
    first.audit.differ([Difference("body", 7, 8, "x"), Difference("missing", 9, None)])
    saved(tmp_path, first)
    store = Store(tmp_path)
    second = restored(store)
    assert second.audit.record() == first.audit.record()
    second.audit.differ([Difference("body", 8, 9)])
    second.audit.verified += 5
    found = Snapshot(always={}, phases=list(Phase), buckets=LATENCY_BUCKETS)
    found.add(second, now=0)
    numbers = found.topics[second.route, second.topic]
    assert (numbers.verified, numbers.unverified) == (5, {"sampling": 0})
    assert numbers.differences == {"body": 1, "missing": 0}
    store.update([second])
    assert restored(store).audit.differences == {"body": 2, "missing": 1}
    store.close()


def test_an_audit_that_goes_on_at_a_standing_position_is_published(tmp_path: Path) -> None:
    """Copies are verified some time after they were acknowledged."""
    store, first = Store(tmp_path), state()
    store.update([first])
    first.audit.verified_to = 15
    store.update([first])
    assert restored(store).audit.verified_to == 15
    store.close()
