"""What metrics count: rebalances, waits, clocks that differ, lag in seconds, the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from replicator.aio.loop_monitor import EventLoopMonitor
from replicator.group.member import clock_skew
from replicator.group.membership import Generation
from replicator.group.rebalances import Rebalances
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.routing.wait_timer import SOURCE, TARGET, WaitTimer


def test_a_rebalance_lasts_until_every_task_has_its_owner() -> None:
    """A burst of assignments is counted each, and its time once."""
    found = Rebalances()
    found.look(Generation(0, ""), 1.0, settled=False)
    assert (found.count, found.going_on) == (0, False)
    found.look(Generation(1, "a"), 10.0, settled=False)
    found.look(Generation(2, "a"), 12.0, settled=False)
    assert (found.count, found.going_on, found.seconds(13.0)) == (2, True, 3.0)
    found.look(Generation(2, "a"), 14.0, settled=True)
    found.look(Generation(2, "a"), 20.0, settled=False)
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
