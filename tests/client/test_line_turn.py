"""Waiting for a line in a coroutine: in turn, and whoever is cancelled leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from replicator.client.line_turn import crossing
from replicator.client.line_window import LineWindow


async def full(line: LineWindow) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    assert not line.has_room


async def test_it_waits_for_room() -> None:
    line, order = LineWindow(lambda: 0.0), list[str]()

    async def other(name: str) -> None:
        async with crossing(line, line.limit):
            order.append(name)
            await asyncio.sleep(0)

    async with crossing(line, line.limit):
        others = [asyncio.create_task(other(name)) for name in "abc"]
        await full(line)
        assert order == []
    await asyncio.gather(*others)
    assert order == ["a", "b", "c"]
    assert line.under_way == 0


async def test_what_fails_is_not_delivered_and_makes_room() -> None:
    line = LineWindow(lambda: 0.0)
    before = line.limit
    with pytest.raises(OSError, match="lost"):
        async with crossing(line, 100 * before):
            raise OSError("lost")
    assert (line.under_way, line.limit) == (0, before)


@pytest.mark.parametrize("late", [False, True], ids=["while it waits", "just after its turn has come"])
async def test_a_cancelled_one_leaves_nothing_behind(late: bool) -> None:
    line = LineWindow(lambda: 0.0)
    begun = line.begin(line.limit)

    async def other() -> None:
        async with crossing(line, 100):
            pytest.fail("it was cancelled")

    task = asyncio.create_task(other())
    await full(line)
    if late:
        line.end(begun, 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if not late:
        line.end(begun, 0)
    assert line.under_way == 0
    assert line.has_room
