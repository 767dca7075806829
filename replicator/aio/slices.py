"""Long work in slices, between which others get their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

__all__ = ["in_slices"]

T = TypeVar("T")

#: Items in a slice. At some 20 microseconds each a slice takes about a millisecond.
_SIZE: Final = 64


async def in_slices(items: Iterable[T], *, size: int = _SIZE) -> AsyncIterator[list[T]]:
    """`items` in their order, so many at a time; they are made as slices are asked for, if they are made."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part
        await asyncio.sleep(0)
