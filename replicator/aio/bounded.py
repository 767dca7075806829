"""Several at once, but not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

__all__ = ["bounded"]

P = TypeVar("P")
T = TypeVar("T")


async def bounded(do: Callable[[P], Awaitable[T]], items: Iterable[P], *, at_once: int) -> list[T]:
    """What `do` gives for each of `items`, in their order; what one of them fails with first is raised."""
    limit = asyncio.Semaphore(at_once)

    async def one(item: P) -> T:
        async with limit:
            return await do(item)

    return await asyncio.gather(*(one(item) for item in items))
