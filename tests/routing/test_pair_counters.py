"""What is lost, reset, foreign or repeated counts once, however often a queue that stands still is tried again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replicator.errors import Unreachable
from replicator.routing import source_side
from replicator.routing.faults import SourceGap, SourceReset
from replicator.routing.pair import QueuePair
from replicator.routing.queue_map import Queue
from replicator.routing.queue_steps import TRANSITIONS, Step
from replicator.routing.shared import Shared
from replicator.routing.state import Phase, QueueState
from tests.routing.shown import Shown, check_of, copy_of


def make_state() -> QueueState:
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.position, state.progress.start = 500, 0
    return state


async def met(state: QueueState, shared: Shared, fault: SourceGap | SourceReset) -> None:
    """One attempt, as the watchdog makes it, that `fault` ends."""
    queue = QueuePair(state, shared, topic="T", from_start=False)
    queue._loss = fault
    event = await queue._do(Step.SKIP_LOSS)
    queue._enter(event, TRANSITIONS[Step.SKIP_LOSS, event])


async def test_a_gap_that_stops_a_queue_counts_once(make_shared: Callable[..., Shared]) -> None:
    """At each attempt only what the source has lost since the last one comes on top."""
    state, shared = make_state(), make_shared(on_gap="fail")
    for _ in range(3):
        await met(state, shared, SourceGap(500, 1500))
        assert state.phase is Phase.FAILED
    assert state.counters.gaps == 1000
    await met(state, shared, SourceGap(500, 1700))
    assert state.counters.gaps == 1200
    state.progress.position = 1700
    for _ in range(2):
        await met(state, shared, SourceGap(2000, 2010))
    assert state.counters.gaps == 1210


def test_a_gap_met_from_further_back_counts_what_is_new() -> None:
    """As after a target that has lost what it had acknowledged."""
    state = make_state()
    state.counters.lose(70, 80)
    state.counters.lose(50, 200)
    assert state.counters.gaps == 150


async def test_a_gap_counts_once_over_a_change_of_the_connector(make_shared: Callable[..., Shared]) -> None:
    """What has been counted goes on with the counters."""
    before, after = make_state(), make_state()
    await met(before, make_shared(on_gap="fail"), SourceGap(500, 1500))
    after.count_on(before.tally())
    await met(after, make_shared(on_gap="skip"), SourceGap(500, 1500))
    assert after.counters.gaps == 1000
    assert after.progress.position == 1500


async def test_a_reset_counts_once(make_shared: Callable[..., Shared], monkeypatch: pytest.MonkeyPatch) -> None:
    """Under either policy, also while the source cannot be asked where to go on; the next one counts again."""
    places: list[int | Exception] = [Unreachable("a", "away"), Unreachable("a", "away"), 0, 0]

    async def first_after(*_place: object) -> int:
        place = places.pop(0)
        if isinstance(place, Exception):
            raise place
        return place

    monkeypatch.setattr(source_side, "first_after", first_after)
    state = make_state()
    for policy in ("fail", "fail", "skip", "skip", "skip"):
        await met(state, make_shared(on_gap=policy), SourceReset(500, 0, 20))
    assert state.counters.resets == 1
    assert state.progress.position == 0
    await met(state, make_shared(), SourceReset(0, 0, 30))
    assert state.counters.resets == 2


async def test_others_messages_behind_the_last_copy_count_once(make_shared: Callable[..., Shared]) -> None:
    """However often the tail is read before another copy follows."""
    broker = Shown(copy_of(499), b"", b"", copy_of(499))
    state, shared = make_state(), make_shared(broker=broker)
    state.progress.offsets.add(499, 0, 1)
    state.progress.store_timestamp = 7
    for _ in range(3):
        state.progress.clean = True
        await check_of(state, shared).run()
    assert (state.counters.foreign, state.counters.duplicates) == (2, 1)
    broker.queue += [b"", copy_of(499)]
    for _ in range(2):
        state.progress.clean = True
        await check_of(state, shared).run()
    assert (state.counters.foreign, state.counters.duplicates) == (3, 2)
    assert state.progress.target_end == 6
