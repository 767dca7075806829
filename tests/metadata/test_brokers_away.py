"""Groups at two clusters of which not all brokers answer: what is left out, reported, asked for and kept."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from replicator.client.offsets import OffsetTable
from replicator.errors import ProtocolError, Unreachable
from replicator.metadata import target_ends
from replicator.metadata.group_positions import GroupPositions
from replicator.metadata.held_record import HeldQueue
from replicator.metadata.offsets import CopiedQueue, GroupQueue
from replicator.metadata.pop_checkpoints import Held
from replicator.routing.offset_map import OffsetMap
from replicator.routing.queue_map import Queue
from tests.metadata.test_group_positions import TARGET, History, Register, no_brokers, shown


class _Pop:
    """What is known of POP consumers."""

    def __init__(self) -> None:
        self.behind: dict[str, str] = {}
        self.problems: dict[str, str] = {}

    async def in_flight(self, _: object) -> dict[Any, Any]:
        return {}


class _Tables:
    """The offsets of one side's brokers, of which some do not answer."""

    def __init__(self, **offsets: int) -> None:
        self.failures: dict[str, str] = {}
        self.offsets = offsets
        self.queue = 0

    async def refresh(self) -> dict[str, Any]:
        return {name: _table(self.queue, offset) for name, offset in self.offsets.items()}


def _table(queue: int, offset: int) -> Any:
    return OffsetTable({("G", "T"): {queue: offset}}, b"")


def _positions(consumed: _Tables, there: _Tables) -> GroupPositions:
    positions = no_brokers()
    positions._pop, positions.consumed, positions.there = (
        cast("Any", _Pop()),
        cast("Any", consumed),
        cast("Any", there),
    )
    return positions


def _copied(_: str, source: Queue) -> CopiedQueue:
    return CopiedQueue(source, Queue(TARGET.broker, int(source.broker == "b")), "T", 200, 0, OffsetMap(), 0)


@pytest.mark.parametrize("error", [ProtocolError("no message"), Unreachable("x:1", "away")])
def test_a_queue_that_cannot_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Its group and it are named, where the broker's address does not say it all."""

    async def complete(place: GroupQueue) -> GroupQueue:
        if place.queue.source.broker == "a":
            raise error
        return place

    positions = _positions(_Tables(a=100, b=120), _Tables(x=0))
    monkeypatch.setattr(positions, "_complete", complete)
    assert [place.source for place in asyncio.run(positions.read(_copied))] == [120]
    named = "G in T queue 0: " if isinstance(error, ProtocolError) else ""
    assert positions.failures == {"x": f"{named}{error}"}


def test_what_is_no_group_at_the_target_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def is_taken(_: object, broker: str, name: str) -> bool:
        asked.append((broker, name))
        return False

    monkeypatch.setattr(Register, "is_taken", is_taken)
    assert asyncio.run(_positions(_Tables(a=100), _Tables(x=0)).read(_copied)) == []
    assert asked == [("x", "G")]


@pytest.mark.parametrize("known", [True, False], ids=["seen before", "never seen"])
def test_what_was_recorded_counts_for_brokers_that_are_away(
    monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """Of queues that it names; of a broker that answers it says nothing new."""

    async def complete(place: GroupQueue) -> GroupQueue:
        return place

    consumed = _Tables(a=100, **({"b": 90} if known else {}))
    consumed.failures = {"b": "away"} if known else {}
    positions = _positions(consumed, _Tables(x=0))
    monkeypatch.setattr(positions, "_complete", complete)
    held = (Held(105, 5000), Held(107, 6000))
    recorded = [HeldQueue("G", "T", Queue(broker, 0), 105, 2, 120, held) for broker in "ab"]
    positions.recorded = lambda: recorded
    mine, theirs = asyncio.run(positions.read(_copied))
    assert (mine.source, mine.in_flight) == (100, 0)
    assert (theirs.queue.source, theirs.source, theirs.delivered, theirs.held) == (Queue("b", 0), 105, 120, held)
    assert (theirs.in_flight, theirs.acknowledged_after) == (2, 13)


def test_an_offset_that_moves_is_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of groups that are consumed in at the target, too, not each queue's end is asked for each time."""
    history, asked = shown(History(), monkeypatch), 0
    history.send(10)
    history.foreign(1000)

    async def end(*_: object) -> int:
        nonlocal asked
        asked += 1
        return len(history.there)

    async def no_change(*_: object) -> None:
        return None

    def copied(_: str, source: Queue) -> CopiedQueue:
        return history.place(0, 0).queue

    monkeypatch.setattr(target_ends, "max_offset", end)
    there = _Tables(x=500)
    there.queue = TARGET.queue_id
    positions = _positions(_Tables(a=10), there)
    for offset in (500, 600, 700, 700, 800):
        there.offsets["x"] = offset
        assert len(asyncio.run(positions.read(copied))) == 1
    assert asked == 1  # then all up to there is known to be in it
    there.offsets["x"] = 2000
    for ends in (None, 1010):
        (place,) = asyncio.run(positions.read(copied))
        assert place.end == ends


def test_what_is_kept_is_of_groups_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or that were there before a broker went away."""
    history = shown(History(), monkeypatch)
    for _ in range(30):
        history.send(1)
        history.foreign(1)
    history.forget(5)

    def copied(_: str, source: Queue) -> CopiedQueue:
        return history.place(0, 0).queue

    consumed, there = _Tables(a=3), _Tables(x=2)
    there.queue = TARGET.queue_id
    positions = _positions(consumed, there)
    asyncio.run(positions.read(copied))
    assert len(positions._copies) > 0
    consumed.offsets, there.failures = {}, {"x": "away"}
    for _ in range(3):
        asyncio.run(positions.read(copied))
    assert len(positions._copies) > 0
    there.failures = {"y": "it is dead, and nobody forgets it"}
    for _ in range(2):
        asyncio.run(positions.read(copied))
    assert (len(positions._copies), len(positions._ends._oldest), len(positions._returned)) == (0, 0, 0)


def test_offsets_that_are_newer_than_what_is_known_of_pop_consumers_are_not_used() -> None:
    """Not either once their broker has died, and nobody can say any more what was delivered before it did."""

    async def read() -> list[int]:
        found = await positions.read(lambda _, source: CopiedQueue(source, TARGET, "T", 200, 0, OffsetMap(), 0))
        return [place.source for place in found]

    async def complete(place: GroupQueue) -> GroupQueue:
        return place

    pop, consumed = _Pop(), _Tables(a=100)
    positions = _positions(consumed, _Tables(x=0))
    positions._pop = cast("Any", pop)
    positions._complete = complete  # type: ignore[method-assign]
    assert asyncio.run(read()) == [100]
    consumed.offsets["a"], pop.behind = 150, {"a": "what POP consumers hold is not read completely yet"}
    assert asyncio.run(read()) == []
    assert positions.failures.keys() == {"a"}
    consumed.failures = {"a": "it is away"}
    assert asyncio.run(read()) == [100]
    assert positions.failures == {"a": "it is away"}
    consumed.failures, pop.behind = {}, {}
    assert asyncio.run(read()) == [150]
