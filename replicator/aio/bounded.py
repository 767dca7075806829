"""Several at once, but not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

__all__ = ["bounded"]

P = TypeVar("P")
T = TypeVar("T")


async def bounded(do: Callable[[P], Awaitable[T]], items: Iterable[P], *, at_once: int) -> list[T]:
    """What `do` gives for each of `items`, in their order; they are begun in it, too.

    Raises:
        Exception: what the first one that fails has failed with; by then nothing of the others goes on.
    """
    found: dict[int, T] = {}
    left = enumerate(items)

    async def work() -> None:
        for number, item in left:
            found[number] = await do(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [found[number] for number in range(len(found))]
