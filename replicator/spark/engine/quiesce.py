"""Waits until a target has no requests of others in progress: once for all tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.ranges.access import Access, run
from replicator.ranges.copy_job import Range, TargetJob
from replicator.routing.dispatch_barrier import DispatchBarrier

__all__ = ["for_attempt", "settled"]

log = get_logger(__name__)

S = TypeVar("S", bound=TargetJob)


def settled(job: S, parts: Iterable[Range]) -> S:
    """Returns `job` once the targets of `parts` have no requests of others in progress.

    If a broker cannot be asked, each task waits on its own.
    """
    time.sleep(job.options.settle_timeout or 0.0)
    try:
        run(_shown(job.target, {part.target.broker for part in parts}))
    except ReplicatorError as error:
        log.debug("target has not settled", reason=str(error))
        return job
    return replace(job, settled=True)


async def _shown(target: Access, brokers: Iterable[str]) -> None:
    async with target.connected() as cluster:
        barrier = DispatchBarrier()
        await asyncio.gather(*(barrier.caught_up(cluster.master(broker)) for broker in brokers))


def for_attempt(job: S, again: bool) -> S:
    """`job` for an attempt at its ranges; `again`: they were tried before.

    Since the driver's check only an earlier attempt at the same ranges can have left a request inside a broker.
    """
    if again or not job.settled:
        return job
    return replace(job, options=replace(job.options, settle_timeout=None))
