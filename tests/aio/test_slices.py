"""Others get their turn between two slices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from replicator.aio.slices import in_slices


async def test_all_comes_in_order() -> None:
    assert [part async for part in in_slices(range(5), size=2)] == [[0, 1], [2, 3], [4]]
    assert [part async for part in in_slices(range(0))] == []


async def test_others_get_their_turn() -> None:
    """As often as there are slices; and what makes the items has made no more by then."""
    turns = [0]
    made = 0

    def items() -> Iterator[int]:
        nonlocal made
        while made < 100:
            made += 1
            yield made

    async def other() -> None:
        while True:
            turns.append(made)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for _ in in_slices(items(), size=10):
        pass
    task.cancel()
    assert turns[-10:] == [*range(10, 101, 10)]
