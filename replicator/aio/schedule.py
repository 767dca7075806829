"""Periodic work: apscheduler's jobs, which get the time to finish when the worker ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from apscheduler.schedulers.asyncio import AsyncIOScheduler

__all__ = ["Schedule"]

#: Seconds that a running job gets to finish at the end.
_JOB_SECONDS: Final = 5.0


class Schedule:
    """Jobs at intervals. One that takes longer than its interval is not started twice."""

    def __init__(self) -> None:
        self._scheduler = AsyncIOScheduler()
        self._running: set[asyncio.Task[None]] = set()

    def every(self, seconds: float, job: Callable[[], Awaitable[None]]) -> None:
        """Calls `job` every so many seconds, from `start` on."""

        async def once() -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - the scheduler runs coroutines as tasks
            self._running.add(task)
            try:
                await job()
            finally:
                self._running.discard(task)

        self._scheduler.add_job(
            once, "interval", seconds=seconds, max_instances=1, coalesce=True, misfire_grace_time=None
        )

    def start(self) -> None:
        """From now on."""
        self._scheduler.start()

    async def end(self) -> None:
        """Lets the jobs that run now finish; the scheduler itself would cut them off."""
        if not self._scheduler.running:
            return
        self._scheduler.pause()
        if self._running:
            await asyncio.wait(self._running, timeout=_JOB_SECONDS)
        self._scheduler.shutdown(wait=False)
