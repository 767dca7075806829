"""Messages that the target has acknowledged and does not show yet are waited for, not sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.errors import BrokerRefused
from replicator.routing import dispatch_barrier, target_check
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.faults import TargetBlocked
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import CopyRecord, Tail
from replicator.routing.seal import Seals
from replicator.routing.shared import Shared
from replicator.routing.state import QueueState
from tests.routing.shown import check_of

BROKER: Any = SimpleNamespace(address="target:10911")


@pytest.fixture
def limits() -> list[int | None]:
    """Up to where the broker shows anything, one after another; empty: to the end."""
    return []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, limits: list[int | None]) -> list[tuple[int, int] | Exception]:
    """What the broker says, one after another; the last for ever."""
    answers: list[tuple[int, int] | Exception] = []

    async def dispatched(_broker: object) -> tuple[int, int]:
        await asyncio.sleep(0)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def confirmed(_broker: object) -> int | None:
        return (limits.pop(0) if len(limits) > 1 else limits[0]) if limits else None

    monkeypatch.setattr(dispatch_barrier, "dispatched", dispatched)
    monkeypatch.setattr(dispatch_barrier, "confirmed", confirmed)
    monkeypatch.setattr(dispatch_barrier, "_PAUSE", 0.001)
    monkeypatch.setattr(dispatch_barrier, "_LIMIT", 0.02)
    monkeypatch.setattr(dispatch_barrier, "_BLIND", 0.001)
    return answers


async def test_what_was_stored_when_it_was_asked_is_waited_for(told: list[Any]) -> None:
    """Not what others have stored since: the queues of a busy broker are always behind."""
    told += [(1000, 400), (1500, 600), (2000, 1000), (9000, 8000)]
    await DispatchBarrier().caught_up(BROKER)
    assert told == [(9000, 8000)]


async def test_what_a_replica_does_not_have_yet_is_waited_for(told: list[Any], limits: list[int | None]) -> None:
    """A broker that dispatches only what all replicas in sync have is never behind by its own account."""
    told += [(1000, 0)]
    limits += [400, 900, 1000, 1001]
    await DispatchBarrier().caught_up(BROKER)
    assert limits == [1001]
    told[:] = [(1000, 0), (1500, 200), (1500, 0), (1600, 0)]  # what came since is not waited for
    limits[:] = [900, 1100, 1100, 1600]
    await DispatchBarrier().caught_up(BROKER)
    assert limits == [1600]


async def test_a_replica_that_stands_still_blocks_the_target(told: list[Any], limits: list[int | None]) -> None:
    """It is in sync by name only, until the broker or the controller notices."""
    told += [(1000, 0)]
    limits += [0]
    with pytest.raises(TargetBlocked, match="not all of its replicas in sync"):
        await DispatchBarrier().caught_up(BROKER)


async def test_many_who_wait_ask_once(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever comes while a look is under way gets a later one, since more may have been stored."""
    looks: list[int] = []

    async def look(_broker: object) -> tuple[int, int]:
        looks.append(1)
        await asyncio.sleep(0.01)
        return 1, 0

    monkeypatch.setattr(dispatch_barrier, "dispatched", look)
    shared = DispatchBarrier()
    first = asyncio.create_task(shared.caught_up(BROKER))
    await asyncio.sleep(0)
    await asyncio.gather(first, *(shared.caught_up(BROKER) for _ in range(50)))
    assert len(looks) == 2


async def test_a_broker_that_does_not_tell_gets_time(told: list[Any]) -> None:
    """As 4.9.7 in its first seconds."""
    told += [BrokerRefused("b", 28, 1, "java.util.NoSuchElementException")]
    await DispatchBarrier().caught_up(BROKER)


async def test_queues_that_stand_still_block_the_target(told: list[Any]) -> None:
    """It is said how far they are behind."""
    told += [(1000, 400)]
    with pytest.raises(TargetBlocked, match="has stored 400 bytes"):
        await DispatchBarrier().caught_up(BROKER)


@pytest.fixture
def tails(monkeypatch: pytest.MonkeyPatch) -> list[Tail]:
    """What the target's queue shows, one look after another."""
    shown: list[Tail] = []

    async def read_tail(*_place: object, **_how: object) -> Tail:
        return shown.pop(0)

    monkeypatch.setattr(target_check, "read_tail", read_tail)
    return shown


@pytest.mark.parametrize("lost", [False, True])
async def test_an_acknowledged_copy_that_is_not_shown(
    lost: bool, told: list[Any], tails: list[Tail], make_shared: Callable[..., Shared]
) -> None:
    """After a clean end: once all is shown it is there, or has been lost indeed."""
    told += [(1000, 0)]
    before, last = CopyRecord(53, 1, 54), CopyRecord(54, 2, 55)
    tails += [Tail(Seals(None, "T"), end=55, last=before, copies=[before])]
    tails += [tails[0] if lost else Tail(Seals(None, "T"), end=56, last=last, known_holds=True)]
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.offsets.add(54, 55, 1)
    state.progress.position, state.progress.start, state.progress.clean, state.progress.store_timestamp = (
        55,
        0,
        True,
        2,
    )
    await check_of(state, make_shared()).run()
    assert not tails
    assert state.progress.position == (54 if lost else 55)
