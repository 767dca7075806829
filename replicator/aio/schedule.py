"""Periodic work: APScheduler's jobs, which get the time to finish when the worker ends.

What happens to them is logged here: APScheduler's own lines name the job by its code and its next time, so that
no two of them are alike and repeats of them are not counted.

APScheduler goes by the wall clock: when that was set back an hour, there would be no heartbeat for an hour. It asks
for the time in its time zone, so here it has a zone in which it is what the monotonic clock shows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobSubmissionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from replicator.observe.logging import get_logger

__all__ = ["Schedule"]

#: Seconds that a running job gets to finish at the end.
_JOB_SECONDS: Final = 5.0

#: By how many seconds the loop is late when the worker has more to do than it can.
_BUSY_SECONDS: Final = 0.25

log = get_logger(__name__)
logging.getLogger("apscheduler").setLevel(logging.ERROR)


class _Monotonic(tzinfo):
    """Where `datetime.now` is the monotonic clock, as if that had begun with the epoch."""

    def fromutc(self, _: datetime) -> datetime:
        return datetime.fromtimestamp(time.monotonic(), UTC).replace(tzinfo=self)

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return "monotonic"


class _Every(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Each `seconds`. APScheduler's own trigger converts other times than now, which that zone cannot."""

    def __init__(self, seconds: float) -> None:
        self._interval = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        return (now if previous is None else previous) + self._interval


class Schedule:
    """Jobs at intervals. One that takes longer than its interval is not started twice."""

    def __init__(self) -> None:
        self._scheduler = AsyncIOScheduler(timezone=_Monotonic())
        self._scheduler.add_listener(self._on_skip, EVENT_JOB_MAX_INSTANCES)
        self._running: set[asyncio.Task[None]] = set()
        #: Names of jobs that have missed a start since they began, and of those that are logged as late.
        self._skipped: set[str] = set()
        self._late: set[str] = set()
        self._ended = False

    def every(self, seconds: float, job: Callable[[], Awaitable[None]], *, name: str) -> None:
        """Calls `job` every so many seconds, from `start` on; one that fails is called again at its next time.

        Args:
            name: what logs call it; unique in this schedule.
        """

        async def once() -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - the scheduler runs coroutines as tasks
            self._running.add(task)
            self._skipped.discard(name)
            try:
                await job()
            except asyncio.CancelledError:
                log.debug("periodic work was cut off at the end", work=name)
            except Exception:
                log.exception("periodic work failed", work=name)
            finally:
                self._running.discard(task)
                if name in self._late and name not in self._skipped:
                    self._late.discard(name)
                    log.info("periodic work keeps its interval again", work=name)

        self._scheduler.add_job(
            once, _Every(seconds), id=name, max_instances=1, coalesce=True, misfire_grace_time=None
        )

    def _on_skip(self, event: JobSubmissionEvent) -> None:
        """A job was to start while it was running: logged once, until it keeps its interval again."""
        self._skipped.add(event.job_id)
        if event.job_id not in self._late:
            self._late.add(event.job_id)
            due = event.scheduled_run_times[0]
            busy = (datetime.now(due.tzinfo) - due).total_seconds() > _BUSY_SECONDS
            why = "this worker is busy" if busy else "it waits for answers, this worker is not busy"
            log.warning("periodic work takes longer than its interval", work=event.job_id, because=why)

    def start(self) -> None:
        """From now on, until `end`."""
        self._scheduler.start()

    async def end(self) -> None:
        """Lets the jobs that run now finish; the scheduler itself would cut them off."""
        if not self._scheduler.running:
            return
        self._scheduler.pause()
        if self._running:
            await asyncio.wait(self._running, timeout=_JOB_SECONDS)
        if not self._ended:  # by another one meanwhile
            self._ended = True
            self._scheduler.shutdown(wait=False)
