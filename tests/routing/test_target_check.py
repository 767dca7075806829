"""What a target queue has lost is found by looking at it, whatever was stored in it since."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from replicator.observe.logging import get_logger
from replicator.routing import dispatch_barrier
from replicator.routing.queue_map import Queue
from replicator.routing.shared import Shared
from replicator.routing.state import QueueState
from replicator.routing.target_check import TargetCheck
from tests.routing.shown import Shown, copy_of


@pytest.fixture(autouse=True)
def nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker shows all that it has."""

    async def all_of_it(_broker: object) -> tuple[int, int]:
        return 1, 0

    async def no_limit(_broker: object) -> None:
        return None

    monkeypatch.setattr(dispatch_barrier, "dispatched", all_of_it)
    monkeypatch.setattr(dispatch_barrier, "confirmed", no_limit)


@pytest.mark.parametrize("overtaken", [False, True])
async def test_the_lost_tail(make_shared: Callable[..., Shared], overtaken: bool) -> None:
    """Offsets 0 to 10 were acknowledged; 8 to 10 are gone, and 11 was stored in their place or not."""
    broker = Shown(*map(copy_of, [*range(8), *([11] if overtaken else [])]))
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.offsets.add(0, 0, 11)
    state.progress.position, state.progress.start, state.progress.clean = 11, 0, True
    state.progress.store_timestamp = 7
    with capture_logs() as logs:
        await TargetCheck(state, make_shared(broker=broker), "T", get_logger(__name__)).run()
    (lost,) = (each for each in logs if each["event"] == "target lost messages")
    assert (lost["count"], lost["first"], lost["last"], lost["copied_again"]) == (3, 8, 10, not overtaken)
    assert state.counters.target_lost == 3
    assert state.progress.position == (12 if overtaken else 8)
    assert state.progress.offsets.target_of(11) == (8 if overtaken else None)


async def test_a_target_queue_that_began_again_has_no_floor(make_shared: Callable[..., Shared]) -> None:
    """Whatever was copied there before the source queue was recreated."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.target_floor, state.progress.clean = 100, True
    await TargetCheck(state, make_shared(broker=Shown()), "T", get_logger(__name__)).run()
    assert state.progress.target_floor == 0


@pytest.mark.parametrize("copied_since", [0, 2])
async def test_what_was_copied_before_the_source_was_reset_is_missed_too(
    make_shared: Callable[..., Shared], copied_since: int
) -> None:
    """Ten copies of an earlier topic, which nobody can copy again, and maybe two of the new one; seven are left."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    progress = state.progress
    progress.target_floor, progress.target_end, progress.clean = 10, 10 + copied_since, True
    progress.resumed = 0
    if copied_since:
        progress.offsets.add(0, 10, copied_since)
        progress.position, progress.store_timestamp = copied_since, 7
    for _ in range(2):  # counted once
        check = TargetCheck(state, make_shared(broker=Shown(*map(copy_of, range(7)))), "T", get_logger(__name__))
        await check.run()
    assert state.counters.target_lost == 3 + copied_since
    assert progress.target_floor == 7
    assert not progress.position
