"""The wait ends with the event, or after its time."""

from __future__ import annotations

import asyncio

from replicator.aio.set_within import set_within


async def test_an_event_that_is_set_meanwhile_ends_the_wait() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, event.set)
    async with asyncio.timeout(10):
        assert await set_within(event, 3600)


async def test_the_wait_ends_without_the_event() -> None:
    assert not await set_within(asyncio.Event(), 0.01)
    assert not await set_within(asyncio.Event(), 0.0)
