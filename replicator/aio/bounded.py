"""Several at once: what all of them give, and no task left behind when one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

__all__ = ["both", "bounded"]

P = TypeVar("P")
T = TypeVar("T")


async def bounded(do: Callable[[P], Awaitable[T]], items: Iterable[P], *, at_once: int) -> list[T]:
    """What `do` gives for each of `items`, in their order; what one of them fails with first is raised."""
    limit = asyncio.Semaphore(at_once)

    async def one(item: P) -> T:
        async with limit:
            return await do(item)

    return await asyncio.gather(*(one(item) for item in items))


async def both(one: Coroutine[Any, Any, P], other: Coroutine[Any, Any, T]) -> tuple[P, T]:
    """What both give; when one fails, that is raised and the other is cancelled."""
    tasks = asyncio.ensure_future(one), asyncio.ensure_future(other)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
