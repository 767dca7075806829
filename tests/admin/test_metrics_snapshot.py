"""What metrics count: rebalances, waits, clocks that differ, lag in seconds, the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import metrics_snapshot
from replicator.aio.loop_monitor import EventLoopMonitor
from replicator.group.member import clock_skew
from replicator.group.membership import Generation
from replicator.group.rebalances import Rebalances
from replicator.observe.numbers import Snapshot
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.routing.wait_timer import SOURCE, TARGET, WaitTimer
from replicator.state.queue_records import position_record, restore


def test_a_rebalance_lasts_until_every_task_has_its_owner() -> None:
    """A burst of assignments is counted each, and its time once."""
    found = Rebalances()
    found.update(Generation(0, ""), 1.0, stable=False)
    assert (found.count, found.going_on) == (0, False)
    found.update(Generation(1, "a"), 10.0, stable=False)
    found.update(Generation(2, "a"), 12.0, stable=False)
    assert (found.count, found.going_on, found.seconds(13.0)) == (2, True, 3.0)
    found.update(Generation(2, "a"), 14.0, stable=True)
    found.update(Generation(2, "a"), 20.0, stable=False)
    assert (found.count, found.going_on, found.seconds(99.0)) == (2, False, 4.0)


@pytest.mark.parametrize(
    ("sent", "stored", "received", "ahead"),
    [(100.0, 100.01, 100.02, 0.0), (100.0, 3700.0, 100.02, 3599.98), (100.0, -3500.0, 100.02, -3600.0)],
)
def test_a_clock_is_ahead_by_what_a_round_trip_cannot_explain(
    sent: float, stored: float, received: float, ahead: float
) -> None:
    """And right as long as it may be."""
    assert clock_skew(sent, stored, received) == pytest.approx(ahead)


def _state(*, position: int, source: int) -> QueueState:
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.position, state.progress.max_offset = position, source
    return state


def test_lag_in_seconds_is_the_age_of_the_oldest_missing_message() -> None:
    """Not of what was copied before a quiet hour; none without a lag; by the broker's clock."""
    state = _state(position=10, source=12)
    assert state.progress.lag_seconds(5000.0) == 0.0
    state.progress.store_timestamp = 1_000_000
    assert state.progress.lag_seconds(1003.0) == 3.0
    state.progress.head_timestamp = 4_600_000
    assert state.progress.lag_seconds(4602.0) == 2.0
    state.progress.skew = -1.5
    assert state.progress.lag_seconds(4602.0) == 0.5
    state.progress.position = 12
    assert state.progress.lag_seconds(4602.0) == 0.0


def test_in_flight_is_what_was_read_and_is_not_settled() -> None:
    """Nothing before the position is known, or when it has gone past."""
    state = _state(position=10, source=90)
    state.progress.read_to = 25
    assert state.progress.in_flight == 15
    state.progress.position = 30
    assert state.progress.in_flight == 0
    state.progress.position = None
    assert state.progress.in_flight == 0


def test_waits_are_added_up_by_whom_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that goes on too, and one that another follows at once."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    waits = WaitTimer()
    waits.begin(SOURCE)
    now[0] = 103.0
    assert (waits.seconds(SOURCE), waits.seconds(TARGET)) == (3.0, 0.0)
    waits.begin(TARGET)
    now[0] = 104.0
    waits.end()
    now[0] = 200.0
    waits.end()
    assert (waits.seconds(SOURCE), waits.seconds(TARGET)) == (3.0, 1.0)


async def test_a_blocked_event_loop_is_seen() -> None:
    """By how much it was late, and everybody is called at each beat."""
    beaten = asyncio.Event()
    loop_monitor = EventLoopMonitor([beaten.set])
    running = asyncio.create_task(loop_monitor.run())
    await asyncio.sleep(0.9)
    time.sleep(0.6)  # noqa: ASYNC251 - what nobody should do
    await beaten.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert 0.3 < loop_monitor.delay < 5


class _Worker:
    """What is read of a worker that has queues of topic `T` of connector `route`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for other in ("_plain", "_group", "_sync"):
            monkeypatch.setattr(metrics_snapshot, other, lambda *_: {})
        self.queues: list[QueueState] = []
        self.context = SimpleNamespace(tallies={})
        self.identity = SimpleNamespace(source="east", target="west")
        self.settings = SimpleNamespace(metrics_per_queue=True)

    async def snapshot(self) -> Snapshot:
        worker: Any = self
        return await metrics_snapshot.snapshot(worker, EventLoopMonitor([]))

    async def shown(self) -> dict[str, float]:
        """Some figures of the topic, and what the only queue has copied."""
        found = await self.snapshot()
        numbers = found.topics["route", "T"]
        names = ("copied", "gaps", "foreign", "lag")
        ((_, of_queue),) = found.samples["queue_messages_replicated"]
        return {
            **{name: numbers.sums[name] for name in names},
            "filtered": numbers.skipped.get("filter", 0),
            "verified": numbers.verified,
            "unverified": sum(numbers.unverified.values()),
            "different": sum(numbers.differences.values()),
            "failed": sum(numbers.errors.values()),
            "slow": found.latency["route"].counts[-1],
            "of queue": of_queue,
        }


def _counted() -> QueueState:
    """A queue of which an earlier owner had counted 3 gaps and 1 filtered message, and this one more since."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0), route="route")
    state.counters.restore({"gaps": 3, "skipped": {"filter": 1}, "skipped_to": 4})
    state.progress.position, state.progress.start, state.progress.max_offset = 20, 0, 24
    counters = state.counters
    counters.copied, counters.foreign, counters.errors["wait", "code 1"] = 5, 1, 6
    counters.gaps += 2
    counters.skip("filter", 4)
    counters.latency[-1] = 7
    state.audit.restore(
        {"to": 4, "rules": 0, "verified": 100, "unverified": {"error": 9}, "differences": {"body": 8}}
    )
    state.audit.verified += 11
    state.audit.unverified["error"] += 3
    state.audit.differences["body"] += 2
    return state


async def test_a_pause_takes_nothing_off_the_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the queue that was copied here, as long as it is halted and when it goes on: each message counts once."""
    worker, running = _Worker(monkeypatch), _counted()
    worker.queues = [running]
    before = await worker.shown()
    assert (before["copied"], before["gaps"], before["foreign"], before["lag"]) == (5, 2, 1, 4)
    assert (before["filtered"], before["failed"], before["slow"], before["of queue"]) == (4, 6, 7, 5)
    assert (before["verified"], before["unverified"], before["different"]) == (11, 3, 2)
    halted = QueueState("T", Queue("a", 0), Queue("b", 0), route="route")
    restore(halted, position_record(running), None, None)
    halted.progress.max_offset = 24
    worker.context.tallies[running.key] = running.tally()
    worker.queues = [halted]
    assert await worker.shown() == before
    resumed = QueueState("T", Queue("a", 0), Queue("b", 0), route="route")
    restore(resumed, position_record(running), None, None)
    resumed.progress.max_offset = 24
    resumed.count_on(worker.context.tallies.pop(resumed.key))
    worker.queues = [resumed]
    assert await worker.shown() == before
    worker.queues, worker.context.tallies[resumed.key] = [], resumed.tally()
    found = await worker.snapshot()
    assert (found.topics, found.latency["route"].counts[-1]) == ({}, 7), "others have the topic"


async def test_a_queue_that_ends_meanwhile_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding up lets other tasks run: one that ends then was running, and one that begins then had ended."""
    monkeypatch.setattr(metrics_snapshot, "_AT_ONCE", 1)
    worker, running = _Worker(monkeypatch), _counted()
    worker.queues = [running]

    async def end() -> None:
        worker.context.tallies[running.key] = running.tally()
        worker.queues.clear()

    shown, _ = await asyncio.gather(worker.shown(), end())
    assert (shown["copied"], shown["gaps"], shown["slow"]) == (5, 2, 7)


async def test_what_is_not_known_of_a_queue_has_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 0 would say that it is at its first message, that nothing is left to copy, that all was read back."""
    worker = _Worker(monkeypatch)
    new = QueueState("T", Queue("a", 0), Queue("b", 0), route="route")
    new.progress.max_offset = 24
    worker.queues = [new]
    known = ("queue_lag_messages", "queue_lag_seconds", "queue_position", "queue_verified_offset")
    samples = (await worker.snapshot()).samples
    assert [[*samples[name]] for name in known] == [[]] * 4
    labels = ("route", "T", "a", "0")
    assert samples["queue_messages_replicated"] == [(labels, 0)]
    new.progress.position = 0
    samples = (await worker.snapshot()).samples
    assert [[*samples[name]] for name in known] == [[(labels, 24)], [(labels, 0.0)], [(labels, 0)], []]
