"""Copies ranges of queues in a Spark task, with the source and sink tasks of a live route, up to their ends.

It first reads from the target's tail which copies exist, so a task that failed or was killed can simply be run
again: no message is lost or copied twice, and the order stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from replicator.client.brokers import max_offset, min_offset
from replicator.client.cluster import Cluster
from replicator.protocol.message import StoredMessage
from replicator.ranges.copy_job import CopyFailed, CopyJob, CopyOutcome, Range
from replicator.ranges.may_send import MaySend
from replicator.ranges.pair_run import TaskResources, run_pair
from replicator.ranges.reader import RangeReader
from replicator.ranges.suspend_guard import awake
from replicator.routing.options import Identity
from replicator.routing.pair import QueuePair
from replicator.routing.recovery import first_copy

__all__ = ["copy_range", "copying", "refuse_later_start"]


async def copy_range(job: CopyJob, part: Range) -> CopyOutcome:
    """Copies the messages of `part` that are not at the target yet; raises the errors of `copying`."""
    async with copying(job) as copy:
        return await copy(part)


@asynccontextmanager
async def copying(job: CopyJob) -> AsyncIterator[Callable[[Range], Awaitable[CopyOutcome]]]:
    """Copies ranges, for use in the context; those that are copied at a time share what the job allows a task.

    The function copies the messages of a range that are not at the target yet. It raises `CopyFailed` where a
    policy has stopped it, the lease was lost, or there was no progress for too long.

    Raises:
        StartupError, ClientError: a cluster cannot be reached at all, or there is no lease.
    """
    patience = job.stall_timeout
    async with (
        job.source.connected(patience=patience) as source,
        _leased(job, source, patience) as may_send,
        job.target.connected(patience=patience, may_go_on=may_send) as target,
    ):
        yield partial(_copy, job, TaskResources.of(job, source, target, may_send))


async def _copy(job: CopyJob, task: TaskResources, part: Range) -> CopyOutcome:
    def before(first: int) -> AsyncIterator[Sequence[StoredMessage]]:
        return RangeReader(
            task.source, part.topic, part.source, part.start, first, on_loss="skip", options=job.options
        ).chunks()

    await refuse_later_start(job.options.identity, part, task.target, before)
    past_end = partial(_refuse_shorter_source, part, task.source)
    make = partial(QueuePair, end=part.end)
    while True:
        losses = task.may_send.losses
        try:
            return await run_pair(job, part, task, make, past_end=past_end)
        except CopyFailed:
            if not await task.may_send.again(losses, job.stall_timeout):
                raise


@asynccontextmanager
async def _leased(job: CopyJob, source: Cluster, patience: float) -> AsyncIterator[MaySend]:
    """A check whether the range may be sent now."""
    async with AsyncExitStack() as stack:
        was_awake = await stack.enter_async_context(awake())
        if job.lease is None:
            yield MaySend(was_awake)
            return
        cluster = source
        if job.lease.coordination == "target":
            cluster = await stack.enter_async_context(job.target.connected(patience=patience))
        yield MaySend(was_awake, await stack.enter_async_context(job.lease.held(cluster)))


async def refuse_later_start(
    identity: Identity,
    part: Range,
    target: Cluster,
    before: Callable[[int], AsyncIterator[Sequence[StoredMessage]]],
) -> None:
    """Refuses a range with messages before the first copy at the target: they can no longer be put before it.

    Args:
        before: returns the messages of the part to be copied that are before an offset.

    Raises:
        CopyFailed: the target queue has later messages of the source queue, but not those of the range's start.
    """
    wanted = (identity.source, *part.source)
    broker, queue_id = target.master(part.target.broker), part.target.queue_id
    if await min_offset(broker, part.target_topic, queue_id) > 0:
        return  # the target's retention has deleted the first ones
    first = await first_copy(broker, part.target_topic, queue_id, mine=lambda found: found[1:4] == wanted, floor=0)
    if first is None or first <= part.start:
        return
    async for messages in before(min(first, part.end)):
        if messages:
            raise CopyFailed(
                f"{part.key}: the copies at the target begin with source offset {first},"
                f" so that offset {messages[0].queue_offset} would come after them",
                hint="copy into another topic with --rename",
            )


async def _refuse_shorter_source(part: Range, source: Cluster, position: int) -> None:
    """Refuses a source queue that ends before the last copy: its new messages would be taken for copied ones.

    Raises:
        CopyFailed: the source queue ends before the last copy.
    """
    end = await max_offset(source.reader(part.source.broker), part.topic, part.source.queue_id)
    if end < position:
        raise CopyFailed(
            f"{part.key} ends at offset {end}, and the target has copies to offset {position - 1}:"
            " the topic was deleted and recreated, or truncated",
            hint="let a live route continue there: it recognises new messages by their store time",
        )
