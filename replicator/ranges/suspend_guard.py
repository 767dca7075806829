"""Detects that this process was suspended: Spark may have started another attempt of its tasks meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from replicator.aio.clock import now

__all__ = ["awake"]

#: Seconds. Spark considers an executor lost after 60 s (a standalone worker's) or 120 (`spark.network.timeout`).
_LIMIT: Final = 20.0
#: Checks of the clock in that time.
_POLLS: Final = 8


@asynccontextmanager
async def awake(*, limit: float = _LIMIT) -> AsyncIterator[Callable[[], bool]]:
    """A check, for use in the context, that the process was never suspended; once it was, the check stays false."""
    watch = _Watch(limit)
    watching = asyncio.create_task(watch.run())
    try:
        yield watch.holds
    finally:
        watching.cancel()
        await asyncio.wait([watching])


class _Watch:
    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._checked = now()
        self._lost = False

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._limit / _POLLS)
            self.holds()

    def holds(self) -> bool:
        checked, self._checked = self._checked, now()
        self._lost |= self._checked - checked > self._limit
        return not self._lost
