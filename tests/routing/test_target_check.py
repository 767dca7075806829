"""What a target queue has lost is found by looking at it, whatever was stored in it since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from replicator.errors import Unreachable
from replicator.routing import dispatch_barrier
from replicator.routing.faults import QueueFailed, StoredElsewhere
from replicator.routing.pair import QueuePair
from replicator.routing.queue_map import Queue
from replicator.routing.queue_steps import TRANSITIONS, Event, Step
from replicator.routing.recovery import CopyRecord
from replicator.routing.seal import Extent, Sealer
from replicator.routing.shared import Shared
from replicator.routing.state import Phase, QueueState
from replicator.state.record import Kind
from replicator.state.store import Store
from tests.routing.shown import Shown, check_of, copy_of

pytestmark = pytest.mark.usefixtures("nothing_waits")


@pytest.mark.parametrize("overtaken", [False, True])
async def test_the_lost_tail(make_shared: Callable[..., Shared], overtaken: bool) -> None:
    """Offsets 0 to 10 were acknowledged; 8 to 10 are gone, and 11 was stored in their place or not."""
    broker = Shown(*map(copy_of, [*range(8), *([11] if overtaken else [])]))
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.offsets.add(0, 0, 11)
    state.progress.position, state.progress.start, state.progress.clean = 11, 0, True
    state.progress.store_timestamp = 7
    with capture_logs() as logs:
        await check_of(state, make_shared(broker=broker)).run()
    (lost,) = (each for each in logs if each["event"] == "target lost messages")
    assert (lost["count"], lost["first"], lost["last"], lost["copied_again"]) == (3, 8, 10, not overtaken)
    assert state.counters.target_lost == 3
    assert state.progress.position == (12 if overtaken else 8)
    assert state.progress.offsets.target_of(11) == (8 if overtaken else None)


async def test_a_target_queue_that_began_again_has_no_floor(make_shared: Callable[..., Shared]) -> None:
    """Whatever was copied there before the source queue was recreated."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.target_floor, state.progress.clean = 100, True
    await check_of(state, make_shared(broker=Shown())).run()
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
        await check_of(state, make_shared(broker=Shown(*map(copy_of, range(7))))).run()
    assert state.counters.target_lost == 3 + copied_since
    assert progress.target_floor == 7
    assert not progress.position


class OneSource:
    """A source that names this offset, or nothing, as left out; `asked` are (start, copy) of all questions."""

    def __init__(self, answer: int | Exception | None) -> None:
        self.answer = answer
        self.asked: list[tuple[int, int]] = []

    async def left_out(self, start: int, copy: CopyRecord) -> int | None:
        self.asked.append((start, copy.source))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def copied_to(last: int) -> QueueState:
    """A queue of which offsets 0 to `last` were copied, to target offsets of the same numbers."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.offsets.add(0, 0, last + 1)
    state.progress.position, state.progress.start, state.progress.clean = last + 1, 0, True
    state.progress.store_timestamp = 7
    return state


async def test_a_copy_that_is_ahead_is_not_believed(make_shared: Callable[..., Shared]) -> None:
    """Where nothing is sealed: the position stays, so that nobody continues after what was not copied."""
    state, source = copied_to(4), OneSource(6)
    shared = make_shared(broker=Shown(*map(copy_of, [*range(5), 5, 30, 31])))
    with pytest.raises(QueueFailed, match="a copy of source offset 30, and none of 6, which the source has"):
        await check_of(state, shared, source).run()
    assert source.asked == [(6, 30)]
    assert state.progress.position == 5
    assert state.progress.offsets.target_of(30) is None


@pytest.mark.parametrize("answer", [None, Unreachable("source:10911", "away")])
async def test_a_copy_that_is_ahead_with_a_reason(
    make_shared: Callable[..., Shared], answer: Exception | None
) -> None:
    """The route copies nothing of what lies before it, or the source is away, as in a disaster."""
    state, source = copied_to(4), OneSource(answer)
    state.progress.position = 20  # up to there the route had left all out before
    await check_of(state, make_shared(broker=Shown(*map(copy_of, [*range(5), 30, 31, 40]))), source).run()
    assert source.asked == ([(20, 30), (32, 40)] if answer is None else [(20, 30)])
    assert state.progress.position == 41


async def test_what_is_ahead_is_not_asked_about_where_it_says_nothing(make_shared: Callable[..., Shared]) -> None:
    """Nothing is known of what was copied before; the target has lost what was; or seals tell what is ours."""
    source = OneSource(AssertionError("asked"))
    fresh = QueueState("T", Queue("a", 0), Queue("b", 0))
    fresh.progress.position = 0
    await check_of(fresh, make_shared(broker=Shown(copy_of(30), copy_of(31))), source).run()
    assert fresh.progress.position == 32
    await check_of(copied_to(4), make_shared(broker=Shown(*map(copy_of, [0, 1, 2, 30]))), source).run()
    sealer = Sealer("k" * 32, "t")
    mine = sealer.seal("T", b"s/a/0/5/7", Extent(30, 2, 7)) + copy_of(5)
    sealed = make_shared(broker=Shown(*map(copy_of, range(5)), mine, copy_of(30)), sealer=sealer)
    state = copied_to(4)
    await check_of(state, sealed, source).run()
    assert state.progress.position == 31


async def test_in_the_first_round_of_a_secret_a_copy_that_is_ahead_is_not_believed(
    make_shared: Callable[..., Shared],
) -> None:
    """Seals prove nothing as long as copies without one are believed."""
    state, source = copied_to(4), OneSource(6)
    accepting = Sealer("k" * 32, "t", accepts_unsealed=True)
    shared = make_shared(broker=Shown(*map(copy_of, [*range(5), 30])), sealer=accepting)
    with pytest.raises(QueueFailed, match="none of 6") as failed:
        await check_of(state, shared, source).run()
    assert source.asked == [(5, 30)]
    assert state.progress.position == 5
    assert "without worker_group_accept_unsigned the group continues at source offset 5" in failed.value.hint


@pytest.mark.parametrize("split", [False, True])
async def test_unsealed_copies_of_workers_with_another_secret(
    make_shared: Callable[..., Shared], *, split: bool
) -> None:
    """While such workers are heard, their secret is what is wrong: to believe their copies would make all twice."""
    shared = make_shared(broker=Shown(copy_of(0), copy_of(1)), sealer=Sealer("k" * 32, "t"))
    shared = replace(shared, hears_other_secret=lambda: split)
    with pytest.raises(QueueFailed, match="2 messages in the target queue say that they are copies") as failed:
        await check_of(QueueState("T", Queue("a", 0), Queue("b", 0)), shared).run()
    assert ("sign with another secret" in str(failed.value)) == split
    assert failed.value.hint.startswith(
        "set worker_group_secret_file of all workers" if split else "if they are right, start the group with"
    )


async def test_what_is_stored_and_not_shown_yet_is_waited_for(
    make_shared: Callable[..., Shared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of ours behind others' messages: it would be sent again. Nothing has to settle for that."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.position, state.progress.start, state.progress.clean = 3, 0, True
    broker = Shown(*map(copy_of, range(3)))

    async def shows_more(_broker: object) -> tuple[int, int]:
        broker.queue += [b"", copy_of(3), copy_of(4)]
        return 1, 0

    monkeypatch.setattr(dispatch_barrier, "dispatched", shows_more)
    pair = QueuePair(state, make_shared(broker=broker, settle_timeout=60.0), topic="T", from_start=False)
    pair._fault = StoredElsewhere("something was stored meanwhile")
    pair._enter(Event.STORED_ELSEWHERE, TRANSITIONS[Step.COPY, Event.STORED_ELSEWHERE])
    assert (state.phase, state.counters.errors) == (Phase.RECOVERING, {})
    assert await pair._do(Step.CHECK_TARGET) is Event.DONE
    assert (state.progress.position, state.progress.target_end) == (5, 6)
    assert (pair._target.suspicious, pair._target.unsettled, pair._target.unshown) == (False, False, False)


def test_an_owner_that_dies_before_its_check_leaves_no_clean_end(
    make_shared: Callable[..., Shared], tmp_path: Path
) -> None:
    """It may wait long, for its broker say; its progress is saved meanwhile, and it sends at any moment."""
    ended = QueueState("T", Queue("a", 0), Queue("b", 0))
    ended.progress.position, ended.progress.start, ended.progress.clean = 11, 0, True
    store = Store(tmp_path)
    store.update([ended])
    store.write(store.snapshot())
    store.close()
    store = Store(tmp_path)
    taken = QueueState("T", Queue("a", 0), Queue("b", 0))
    store.restore(taken)
    assert taken.progress.clean
    store.begin([taken])
    check = check_of(taken, make_shared())
    store.update([taken])
    assert store.state.items(Kind.OFFSET)[taken.key]["clean"] is False
    assert not check.unsettled
    store.close()
