"""Has Spark run a job of resident queues, again and again while it has any."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from replicator.aio.own_thread import in_own_thread
from replicator.observe.logging import get_logger
from replicator.spark.resident.job import ResidentJob
from replicator.spark.resident.jobs import SparkGone, SparkJobs
from replicator.spark.resident.pair import Slot

__all__ = ["keep_running"]

#: Seconds within which a task that is not needed any more must end by itself.
_ENDING: Final = 30.0

log = get_logger(__name__)


async def keep_running(jobs: SparkJobs, slot: Slot, job: ResidentJob) -> str:
    """Returns when `slot` has no queues and its job has ended; or why there is no Spark any more."""
    ending = asyncio.create_task(slot.ending.wait())
    try:
        while not ending.done():
            running = asyncio.create_task(in_own_thread(lambda: jobs.run(job)))
            running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # also if nobody waits
            await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                await _end(jobs, slot, running)
                break
            error = running.exception()
            if isinstance(error, SparkGone):
                return str(error)
            seconds, reason = slot.backoff.next(), "it ended by itself" if error is None else str(error)
            log.warning(
                "Spark job ended, and is submitted again",
                job=slot.number,
                reason=reason.partition("\n")[0],
                seconds=seconds,
            )
            await asyncio.wait({ending}, timeout=seconds)
    finally:
        ending.cancel()
    return ""


async def _end(jobs: SparkJobs, slot: Slot, running: asyncio.Task[None]) -> None:
    """Returns when a job without queues has ended."""
    # One that has not begun would queue for a slot only to be told to end.
    if slot.channel is None or not (await asyncio.wait({running}, timeout=_ENDING))[0]:
        with suppress(Exception):  # then it has ended
            await in_own_thread(lambda: jobs.cancel(slot.number))
    await asyncio.wait({running})
