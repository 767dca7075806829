"""The channel between source and sink: order, memory, and a failure behind all that came before it."""

from __future__ import annotations

import asyncio

import pytest

from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Chunk


def chunk(size: int) -> Chunk:
    return Chunk([], 1, size, copies=False)


async def test_chunks_come_out_in_order_and_their_memory_is_released() -> None:
    """First when the reader says so, not when they are taken out."""
    budget = MemoryBudget(100)
    channel = Channel(budget)
    for size in (10, 20):
        budget.charge(size)
        channel.put(chunk(size))
    await channel.ready()
    assert channel.size == 30
    assert channel.pop() == 10
    assert (channel.size, budget.used) == (20, 30)
    channel.release(10)
    assert budget.used == 20
    assert channel.pop() == 20
    channel.release(20)
    assert (channel.size, budget.used) == (0, 0)


async def test_a_reader_wakes_when_something_comes() -> None:
    """And not before."""
    channel = Channel(MemoryBudget(100))
    reading = asyncio.create_task(channel.ready())
    await asyncio.sleep(0)
    assert not reading.done()
    channel.put(chunk(1))
    async with asyncio.timeout(5):
        await reading


async def test_a_failure_comes_behind_all_chunks() -> None:
    """What was read before it is not lost; the first failure counts."""
    channel = Channel(MemoryBudget(100))
    channel.put(chunk(1))
    channel.fail(KeyError("first"))
    channel.fail(KeyError("second"))
    await channel.ready()
    channel.pop()
    for _ in range(2):
        with pytest.raises(KeyError, match="first"):
            await channel.ready()


async def test_a_failure_wakes_the_reader() -> None:
    """One that waits in an empty channel."""
    channel = Channel(MemoryBudget(100))
    reading = asyncio.create_task(channel.ready())
    await asyncio.sleep(0)
    channel.fail(KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        async with asyncio.timeout(5):
            await reading


async def test_a_cancelled_reader_leaves_the_channel_usable() -> None:
    """The next one gets what comes."""
    channel = Channel(MemoryBudget(100))
    reading = asyncio.create_task(channel.ready())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    channel.put(chunk(1))
    async with asyncio.timeout(5):
        await channel.ready()


def test_dropping_gives_all_memory_back() -> None:
    """Also to whoever waits for it in line."""
    budget = MemoryBudget(100)
    channel = Channel(budget)
    for size in (60, 40):
        budget.charge(size)
        channel.put(chunk(size))
    granted: list[int] = []
    budget.reserve(90, lambda: granted.append(90))
    channel.drop()
    assert (channel.size, len(channel.chunks)) == (0, 0)
    assert granted == [90]
    assert budget.used == 90
