"""Runs the queue pair of a range in a task, up to the range's end, beside those of the task's other ranges."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from replicator.client.brokers import read_config
from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError
from replicator.ranges.copy_job import CopyFailed, CopyOutcome, Range, TargetJob
from replicator.ranges.may_send import MaySend
from replicator.routing.budget import MemoryBudget
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.limiter import RateLimiter
from replicator.routing.message_queue import MessageQueue
from replicator.routing.pair import QueuePair
from replicator.routing.recovery_slots import RecoverySlots
from replicator.routing.shared import Shared
from replicator.routing.state import Phase, QueueState

__all__ = ["TaskResources", "run_pair"]

#: Seconds between two checks of a copy's progress.
_POLL_INTERVAL: Final = 0.5
#: Seconds between two refreshes of the routes while a copy waits for a broker.
_REFRESH: Final = 2.0
#: Seconds that inspecting foreign messages may take at the end: the outcome counts them, and a loaded broker takes
#: seconds to show what it has stored.
_AUDIT: Final = 30.0


@dataclass(frozen=True, slots=True)
class TaskResources:
    """What the ranges of one task share: connections, memory, rates, and whether they may be sent."""

    source: Cluster
    target: Cluster
    may_send: MaySend
    budget: MemoryBudget
    limiter: RateLimiter
    recovering: RecoverySlots

    @classmethod
    def of(cls, job: TargetJob, source: Cluster, target: Cluster, may_send: MaySend) -> TaskResources:
        """Those that the job allows a task."""
        limiter = RateLimiter(job.rate_messages, job.rate_bytes)
        return cls(source, target, may_send, MemoryBudget(job.memory_bytes), limiter, RecoverySlots())


async def run_pair(
    job: TargetJob,
    part: Range,
    task: TaskResources,
    make: Callable[..., QueuePair],
    *,
    past_end: Callable[[int], Awaitable[None]] | None = None,
) -> CopyOutcome:
    """Runs the pair that `make` returns for `part`, and returns the outcome.

    Args:
        past_end: called with the position if it is after the end of `part`: the target had later copies already.

    Raises:
        CopyFailed: a policy stopped it, or there was no progress for too long.
    """
    started = time.monotonic()
    state = QueueState(part.topic, part.source, part.target)
    state.progress.position = state.progress.start = part.start
    async with _auditing() as inspector:
        shared = await _shared(job, part, task, inspector)
        copying = asyncio.create_task(make(state, shared, topic=part.target_topic, from_start=False).run())
        try:
            await _watch(copying, state, clusters=(task.source, task.target), seconds=job.stall_timeout)
        finally:
            copying.cancel()
            await asyncio.wait([copying])
        try:
            async with asyncio.timeout(_AUDIT):
                await inspector.drained()
        except TimeoutError:
            raise CopyFailed(
                f"{part.key}: everything is copied, but foreign messages between were not shown in {_AUDIT:g} s"
            ) from None
        if past_end is not None and state.progress.position > part.end:
            await past_end(state.progress.position)
    if state.phase is not Phase.STOPPED or not state.progress.clean:
        raise CopyFailed(f"{part.key} at offset {state.progress.position}: {state.reason or 'it ended early'}")
    return _outcome(part, state, time.monotonic() - started)


@asynccontextmanager
async def _auditing() -> AsyncIterator[ForeignWriteInspector]:
    inspector = ForeignWriteInspector()
    running = asyncio.create_task(inspector.run())
    try:
        yield inspector
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _shared(job: TargetJob, part: Range, task: TaskResources, inspector: ForeignWriteInspector) -> Shared:
    limit = (await read_config(task.target.master(part.target.broker))).max_message_size
    return Shared(
        source=task.source,
        target=task.target,
        options=job.options,
        budget=task.budget,
        limiter=task.limiter,
        dead_letters=DeadLetters.of(task.target, job.options, lambda _: limit),
        inspector=inspector,
        recovering=task.recovering,
        message_limit=lambda _: limit,
        may_send=task.may_send,
    )


async def _watch(
    copying: asyncio.Task[None], state: QueueState, *, clusters: tuple[Cluster, ...], seconds: float
) -> None:
    """Returns when the copy has ended; refreshes routes meanwhile, since brokers may come back elsewhere."""
    clock = asyncio.get_running_loop().time
    position, since, asked = state.progress.position, clock(), clock()
    while not copying.done():
        await asyncio.wait([copying], timeout=_POLL_INTERVAL)
        if state.progress.position != position:
            position, since = state.progress.position, clock()
        elif clock() - since > seconds and not copying.done():
            raise CopyFailed(
                f"{MessageQueue(state.topic, *state.source)} made no progress at offset {position}"
                f" for {seconds:g} s: {state.reason or 'the broker gives nothing'}"
            )
        if state.phase is Phase.WAITING and clock() - asked > _REFRESH:
            asked = clock()
            for cluster in clusters:
                await _refresh(cluster)
    copying.result()  # raises what is not a fault of the queue but a bug


async def _refresh(cluster: Cluster) -> None:
    try:
        await cluster.refresh()
    except ReplicatorError:
        return  # the next check retries, until the stall timeout


def _outcome(part: Range, state: QueueState, seconds: float) -> CopyOutcome:
    runs: list[Any] = list(state.progress.offsets)
    length = part.end - part.start
    # Not counted one by one: whatever of the range was not copied, lost or left out was at the target before.
    before = length - state.counters.copied - state.counters.gaps - sum(state.counters.skipped.values())
    return CopyOutcome(
        key=part.key,
        start=part.start,
        end=part.end,
        copied=state.counters.copied,
        before=max(0, before),
        gaps=state.counters.gaps,
        left_out=dict(state.counters.skipped),
        first=runs[0].target if runs else None,
        last=runs[-1].target + runs[-1].length - 1 if runs else None,
        tail=state.progress.last,
        resets=state.counters.resets,
        duplicates=state.counters.duplicates,
        foreign=state.counters.foreign,
        seconds=round(seconds, 3),
    )
