"""Several at once: their order, how many, and what becomes of the others when one fails."""

from __future__ import annotations

import asyncio

import pytest

from replicator.aio.bounded import bounded


async def test_what_comes_of_each_in_their_order_and_no_more_at_once() -> None:
    busy, most, begun = 0, 0, []

    async def do(item: int) -> int:
        nonlocal busy, most
        begun.append(item)
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.001 * (5 - item))
        busy -= 1
        return item * 10

    assert await bounded(do, iter(range(5)), at_once=2) == [0, 10, 20, 30, 40]
    assert (most, begun) == (2, [0, 1, 2, 3, 4])
    assert await bounded(do, [], at_once=2) == []


async def test_when_one_fails_nothing_of_the_others_goes_on() -> None:
    """Or it would work beside what is done about the failure."""
    done = []

    async def do(item: int) -> None:
        if item == 1:
            raise KeyError(item)
        await asyncio.sleep(0.01)
        done.append(item)

    with pytest.raises(KeyError, match="1"):
        await bounded(do, range(9), at_once=3)
    await asyncio.sleep(0.03)
    assert done == []
