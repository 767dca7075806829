"""A wait for an event that ends after some time in any case."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["set_within"]


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits until `event` is set, for so many seconds at most; whether it is."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
