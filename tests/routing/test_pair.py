"""A queue that is to end does so in the middle of a check, however long that would wait for a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from structlog.testing import capture_logs

from replicator.errors import Unreachable
from replicator.routing import dispatch_barrier
from replicator.routing.pair import QueuePair
from replicator.routing.queue_map import Queue
from replicator.routing.queue_steps import TRANSITIONS, Event, Step
from replicator.routing.shared import Shared
from replicator.routing.state import Phase, QueueState
from tests.routing.shown import Shown, copy_of


async def for_ever(*_asked: object) -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def pair_of(shared: Shared, *, copied: int = 3) -> QueuePair:
    """A queue of which so many messages were copied, by an owner that left nothing unsettled."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.offsets.add(0, 0, copied)
    state.progress.position, state.progress.start, state.progress.clean = copied, 0, True
    state.progress.store_timestamp = 7
    return QueuePair(state, shared, topic="T", from_start=False)


async def ended(pair: QueuePair) -> None:
    """Has it run, told to end once it waits, and once more."""
    running = asyncio.create_task(pair.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()
    pair.drain()
    pair.drain()
    async with asyncio.timeout(5):
        await running
    assert pair.state.phase is Phase.STOPPED


async def test_while_the_target_cannot_be_reached(make_shared: Callable[..., Shared]) -> None:
    shared = make_shared(broker=Shown(*map(copy_of, range(3))))
    shared.target.writer("b").connection = for_ever  # type: ignore[method-assign]
    pair = pair_of(shared)
    await ended(pair)
    assert not pair.state.progress.clean


async def test_while_the_target_does_not_show_what_was_acknowledged(
    make_shared: Callable[..., Shared], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_barrier, "confirmed", for_ever)
    pair = pair_of(make_shared(broker=Shown(*map(copy_of, range(2)))))
    await ended(pair)
    assert pair.state.counters.target_lost == 0


async def test_while_others_check_the_target(make_shared: Callable[..., Shared]) -> None:
    shared = make_shared(broker=Shown(*map(copy_of, range(3))))
    slots = shared.recovering.at("target", "b")
    while not slots.locked():
        await slots.acquire()
    await ended(pair_of(shared))


async def test_while_the_target_settles(make_shared: Callable[..., Shared]) -> None:
    """The next owner waits for it: it must not believe that the target has."""
    pair = pair_of(make_shared(broker=Shown(*map(copy_of, range(3))), settle_timeout=60.0))
    pair._enter(Event.OUTCOME_UNKNOWN, TRANSITIONS[Step.COPY, Event.OUTCOME_UNKNOWN])
    await ended(pair)
    assert not pair.state.progress.clean


async def test_while_the_source_cannot_be_reached(make_shared: Callable[..., Shared]) -> None:
    """Nothing is left at the target that the next owner would have to wait for."""
    away: Any = SimpleNamespace(reader=lambda _: SimpleNamespace(connection=for_ever))
    pair = pair_of(replace(make_shared(broker=Shown(*map(copy_of, range(3)))), source=away))
    await ended(pair)
    assert pair.state.progress.clean


@pytest.mark.usefixtures("nothing_waits")
async def test_what_a_dead_owner_sent_last_is_for_the_next_one_to_see(make_shared: Callable[..., Shared]) -> None:
    """Where nothing was sent since, nobody knows whether it was stored."""
    away: Any = SimpleNamespace(reader=lambda _: SimpleNamespace(connection=for_ever))
    shared = replace(make_shared(broker=Shown(*map(copy_of, range(3)))), source=away)
    state = pair_of(shared).state
    state.progress.clean = False
    pair = QueuePair(state, shared, topic="T", from_start=False)
    await ended(pair)
    assert pair._target.suspicious
    assert not state.progress.clean


async def test_a_time_limit_of_a_check_is_not_the_end_of_the_queue(make_shared: Callable[..., Shared]) -> None:
    """What the check itself raises stays what it is."""
    shared = make_shared()

    async def fails() -> NoReturn:
        raise Unreachable("target:10911", "away")

    shared.target.writer("b").connection = fails  # type: ignore[method-assign]
    assert await pair_of(shared)._do(Step.CHECK_TARGET) is Event.UNREACHABLE

    async def is_late() -> NoReturn:
        raise TimeoutError

    shared.target.writer("b").connection = is_late  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await pair_of(shared)._do(Step.CHECK_TARGET)


def test_queues_of_waiting_messages_are_told_of_together(make_shared: Callable[..., Shared]) -> None:
    """A source that is dead has one for each delay level, which nobody knows by itself."""
    shared = make_shared(broker=Shown())
    states = [QueueState("SCHEDULE_TOPIC_XXXX", Queue("a", i), Queue("b", i)) for i in range(18)]
    pairs = [QueuePair(state, shared, topic="parked", from_start=True) for state in states]
    lost, checked = TRANSITIONS[Step.COPY, Event.SOURCE_LOST], TRANSITIONS[Step.CHECK_SOURCE, Event.DONE]
    with capture_logs() as logs:
        for pair in pairs:
            pair._fault = Unreachable("a:1", "it is away")
            pair._enter(Event.SOURCE_LOST, lost)
        assert {pair.state.phase for pair in pairs} == {Phase.WAITING}
        for pair in pairs:
            pair._fault = None
            pair._enter(Event.DONE, checked)
    assert [(each["event"], each["queue"]) for each in logs] == [
        ("waiting", "SCHEDULE_TOPIC_XXXX/a"),
        ("no longer waiting", "SCHEDULE_TOPIC_XXXX/a"),
    ]
