"""What was read of a target queue is kept and made longer: it is the same as if all had been read at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.client.endpoint import Endpoint
from replicator.metadata import offset_map_scan, scanned_copies
from replicator.metadata.offset_map_scan import scan_offset_map
from replicator.metadata.offsets import CopiedQueue, GroupQueue
from replicator.metadata.scanned_copies import ScannedCopies
from replicator.routing.offset_map import OffsetMap
from replicator.routing.queue_map import Queue

BROKER = cast("Endpoint", None)
QUEUE = CopiedQueue(Queue("a", 0), Queue("x", 3), "T", 10, 0, OffsetMap(), 0)


class Target:
    """A target queue of copies, each by its source offset, and of messages of others: None. `read` counts."""

    def __init__(self, patch: pytest.MonkeyPatch, there: list[int | None]) -> None:
        self.there = there
        self.read = 0
        self.fails_at: int | None = None
        patch.setattr(offset_map_scan, "read_range", self.read_range)
        patch.setattr(offset_map_scan, "_source", lambda message, *_: self.there[message.queue_offset])

    async def read_range(self, _: object, __: str, ___: int, start: int, stop: int) -> AsyncIterator[Any]:
        for offset in range(start, min(stop, len(self.there))):
            if offset == self.fails_at:
                raise TimeoutError
            self.read += 1
            yield type("Message", (), {"queue_offset": offset})


def place(group: str = "G") -> GroupQueue:
    return GroupQueue(group, "T", QUEUE, 5, 0)


def before(known: ScannedCopies, start: int, stop: int, group: str = "G") -> tuple[list[Any], int]:
    """The runs of the copies, and up to where they are known."""
    found, end = asyncio.run(known.before(BROKER, place(group), start, stop))
    return [*found], end


def test_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all groups together; also after something went wrong."""
    target, known = Target(monkeypatch, [*range(100)]), ScannedCopies("s")
    assert before(known, 10, 50) == ([(10, 10, 40)], 50)
    assert before(known, 20, 60, "H") == ([(10, 10, 50)], 60)
    assert target.read == 50
    target.fails_at = 65
    with pytest.raises(TimeoutError):
        before(known, 10, 70)
    target.fails_at, target.read = None, 0
    assert before(known, 10, 70) == ([(10, 10, 60)], 70)
    assert target.read == 10


def test_a_queue_that_begins_earlier_than_what_is_known_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a group that is further back, and where the target's topic was recreated."""
    target, known = Target(monkeypatch, [*range(100)]), ScannedCopies("s")
    before(known, 50, 80)
    assert before(known, 40, 80) == ([(40, 40, 40)], 80)
    target.there = [None, *range(100)]
    assert before(known, 40, 70) == ([(39, 40, 30)], 70)


def test_what_is_kept_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies before all groups that are near the offset map goes first, and what no look uses goes at all."""
    monkeypatch.setattr(scanned_copies, "_MOST", 10)
    there: list[int | None] = [None if at % 3 else at for at in range(100)]
    target, known = Target(monkeypatch, there), ScannedCopies("s")
    for stop in range(10, 90):
        runs, end = before(known, stop - 10, stop)
        assert end == stop
        assert len(runs) <= 8
        assert [run for run in runs if run[1] >= stop - 10] == [
            (at, at, 1) for at in range(stop - 10, stop) if not at % 3
        ]
    assert target.read == 89
    assert asyncio.run(known.offset_behind(BROKER, place(), 30, 0, 90)) == 28
    assert len(known) == 2
    for away, left in (({"a"}, 2), ({"x"}, 1), ({"b"}, 0)):
        known.forget_unused(away=away)
        assert len(known) == left


STOPS = st.lists(st.integers(1, 60), min_size=1, max_size=6)


@given(st.lists(st.none() | st.integers(0, 30), min_size=60, max_size=60), st.integers(0, 20), STOPS)
def test_it_is_as_if_read_at_once(there: list[int | None], start: int, stops: list[int]) -> None:
    """Also where the source queue was deleted and recreated between two parts."""

    async def check() -> None:
        known = ScannedCopies("s")
        for stop in sorted({start + 1, *(each for each in stops if each > start)}):
            runs, _ = await known.before(BROKER, place(), start, stop)
            whole = scan_offset_map(BROKER, "T", 3, start=start, stop=stop, mine=lambda _: True)
            assert [*runs] == [*await whole]

    with pytest.MonkeyPatch.context() as patch:
        Target(patch, there)
        asyncio.run(check())


@pytest.mark.parametrize(("in_order", "reads_again"), [(True, False), (False, True)])
def test_a_place_is_looked_for_again_if_more_may_be_before_it(
    monkeypatch: pytest.MonkeyPatch, in_order: bool, reads_again: bool
) -> None:
    """Not where all that is new was copied later."""
    target, known = Target(monkeypatch, [*range(100)]), ScannedCopies("s")
    look = known.offset_behind
    assert asyncio.run(look(BROKER, place(), 30, 0, 50, in_order=in_order)) == 30
    assert asyncio.run(look(BROKER, place(), 31, 0, 50, in_order=in_order)) == 31
    target.read = 0
    assert asyncio.run(look(BROKER, place(), 30, 0, 50, in_order=in_order)) == 30
    assert target.read == 0
    assert asyncio.run(look(BROKER, place(), 30, 0, 60, in_order=in_order)) == 30
    assert (target.read > 0) == reads_again
