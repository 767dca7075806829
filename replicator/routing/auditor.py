"""Looks at what somebody else stored in a target queue between two of our batches.

A foreign producer's messages are counted; a message of our own that is there a second time (the late
request of a dead owner) is counted as repeated. One reader for the whole route, behind the data path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from replicator.errors import ClientError

__all__ = ["Auditor"]

Look = Callable[[int, int], Awaitable[None]]


class Auditor:
    """Works off ranges of target offsets, in the order they came."""

    def __init__(self) -> None:
        self._ranges: asyncio.Queue[tuple[Look, int, int]] = asyncio.Queue()

    def add(self, look: Look, start: int, stop: int) -> None:
        """Has [start, stop) looked at by `look` soon."""
        self._ranges.put_nowait((look, start, stop))

    async def run(self) -> None:
        """Runs until cancelled; a broker that cannot be read now is asked again."""
        while True:
            look, start, stop = await self._ranges.get()
            try:
                await look(start, stop)
            except ClientError:
                self.add(look, start, stop)
                await asyncio.sleep(1.0)
            finally:
                self._ranges.task_done()

    async def drained(self) -> None:
        """Returns once all that was added has been looked at."""
        await self._ranges.join()
