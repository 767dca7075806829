"""A request's turn on the line of its connection, for those who wait in a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from replicator.client.line_window import Crossing, LineWindow

__all__ = ["crossing"]


@asynccontextmanager
async def crossing(line: LineWindow, size: int) -> AsyncIterator[None]:
    """Waits until `line` has room; in the block `size` bytes cross it, delivered once it ends without exception."""
    begun = line.begin(size) if line.has_room else await _turn(line, size)
    received = 0
    try:
        yield
        received = size
    finally:
        line.end(begun, received)


async def _turn(line: LineWindow, size: int) -> Crossing:
    turn: asyncio.Future[Crossing] = asyncio.get_running_loop().create_future()

    def ready() -> None:
        if not turn.done():
            turn.set_result(line.begin(size))

    line.wait(ready)
    try:
        return await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():  # it was cancelled just after its turn had come
            line.end(turn.result(), 0)
        raise
