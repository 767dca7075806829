"""Copies a range of one queue in a Spark task, with the source and sink tasks of a live route, up to an end.

It first reads from the target's tail which copies exist, so a task that failed or was killed can simply be run
again: no message is lost or copied twice, and the order stays.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from replicator.client.brokers import max_offset, min_offset, read_config
from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage
from replicator.ranges.access import Access
from replicator.ranges.may_send import MaySend
from replicator.ranges.rates import RateLimited
from replicator.ranges.reader import RangeReader
from replicator.ranges.suspend_guard import awake
from replicator.routing.budget import MemoryBudget
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.limiter import RateLimiter
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.pair import QueuePair
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import CopyRecord, first_copy
from replicator.routing.recovery_slots import RecoverySlots
from replicator.routing.shared import Shared
from replicator.routing.state import Phase, QueueState
from replicator.settings import Settings

__all__ = [
    "CopyFailed",
    "CopyJob",
    "CopyOutcome",
    "Lease",
    "Range",
    "TargetJob",
    "copy_range",
    "refuse_later_start",
    "run_pair",
]

#: Seconds between two checks of a copy's progress.
_POLL_INTERVAL: Final = 0.5
#: Seconds between two refreshes of the routes while a copy waits for a broker.
_REFRESH: Final = 2.0
#: Seconds that inspecting foreign messages may take at the end: the outcome counts them, and a loaded broker takes
#: seconds to show what it has stored.
_AUDIT: Final = 30.0


class CopyFailed(ReplicatorError):
    """A range could not be copied to its end; what has arrived stays, and the next attempt continues after it."""


class Range(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages [start, end) of a source queue, and the target queue that they go to."""

    topic: str
    source: Queue
    target_topic: str
    target: Queue
    start: int
    end: int

    @property
    def key(self) -> str:
        """The name of the source queue."""
        return str(MessageQueue(self.topic, *self.source))


class CopyOutcome(msgspec.Struct, frozen=True):
    """The outcome of the range `key`: its counts add up to `end` - `start`, unless `error` says why it stopped.

    `copied` counts messages sent by the last attempt, `before` those that were at the target when it started,
    `gaps` those that the source no longer had, `left_out` those that the route's filters left out. `first` and
    `last` are the target offsets that the attempt knows, `tail` is the last copy. `duplicates` counts second
    copies, `foreign` messages of other producers in between.
    """

    key: str
    start: int
    end: int
    copied: int = 0
    before: int = 0
    gaps: int = 0
    left_out: dict[str, int] = {}
    first: int | None = None
    last: int | None = None
    tail: CopyRecord | None = None
    resets: int = 0
    duplicates: int = 0
    foreign: int = 0
    seconds: float = 0.0
    error: str = ""

    @classmethod
    def failed(cls, part: Range, error: str) -> CopyOutcome:
        """The outcome of a range that could not be copied to its end."""
        return cls(part.key, part.start, part.end, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetJob(RateLimited):
    """How all ranges are written to the target; a task without progress for `stall_timeout` ends with an error.

    `settled`: the driver has seen that the target's brokers have no requests in progress any more.
    """

    target: Access
    options: RouteOptions
    memory_bytes: int
    stall_timeout: float = 60.0
    settled: bool = False


class Lease(Protocol):
    """Allows tasks to send while it is held; it is sent to executors. `coordination` is the cluster that tells."""

    @property
    def coordination(self) -> str: ...

    def held(self, cluster: Cluster) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """A check, for use in the context, that the lease is still held; entering waits until it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob(TargetJob):
    """What all ranges have in common; without a `lease` no worker may copy their queues meanwhile."""

    source: Access
    lease: Lease | None = None

    @classmethod
    def of(cls, settings: Settings, options: RouteOptions) -> CopyJob:
        """The job for a worker's settings, with the whole of the route's rates.

        Raises:
            ConfigError: the file with a cluster's secret cannot be used.
        """
        return cls(
            source=Access.of(settings.source),
            target=Access.of(settings.target),
            options=options,
            memory_bytes=settings.memory_bytes,
            rate_messages=settings.rate_messages,
            rate_bytes=settings.rate_bytes,
            stall_timeout=settings.stall_timeout,
        )


async def copy_range(job: CopyJob, part: Range) -> CopyOutcome:
    """Copies the messages of `part` that are not at the target yet.

    Raises:
        CopyFailed: a policy stopped it, the lease was lost, or there was no progress for too long.
        StartupError, ClientError: a cluster cannot be reached at all, or there is no lease.
    """
    patience = job.stall_timeout
    async with (
        job.source.connected(patience=patience) as source,
        _leased(job, source, patience) as may_send,
        job.target.connected(patience=patience, may_go_on=may_send) as target,
    ):

        def before(first: int) -> AsyncIterator[Sequence[StoredMessage]]:
            return RangeReader(
                source, part.topic, part.source, part.start, first, on_loss="skip", options=job.options
            ).chunks()

        await refuse_later_start(job.options.identity, part, target, before)
        past_end = partial(_refuse_shorter_source, part, source)
        make = partial(QueuePair, end=part.end)
        while True:
            try:
                return await run_pair(job, part, source, target, make, may_send=may_send, past_end=past_end)
            except CopyFailed:
                if not await may_send.again(job.stall_timeout):
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


async def run_pair(
    job: TargetJob,
    part: Range,
    source: Cluster,
    target: Cluster,
    make: Callable[..., QueuePair],
    *,
    may_send: Callable[[], bool],
    past_end: Callable[[int], Awaitable[None]] | None = None,
) -> CopyOutcome:
    """Runs the pair that `make` returns for `part`, and returns the outcome.

    Args:
        may_send: false if another process may have taken the range over.
        past_end: called with the position if it is after the end of `part`: the target had later copies already.

    Raises:
        CopyFailed: a policy stopped it, or there was no progress for too long.
    """
    started = time.monotonic()
    state = QueueState(part.topic, part.source, part.target)
    state.progress.position = state.progress.start = part.start
    async with _auditing() as inspector:
        shared = replace(await _shared(job, part, source, target, inspector), may_send=may_send)
        copying = asyncio.create_task(make(state, shared, topic=part.target_topic, from_start=False).run())
        try:
            await _watch(copying, state, clusters=(source, target), seconds=job.stall_timeout)
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


@asynccontextmanager
async def _auditing() -> AsyncIterator[ForeignWriteInspector]:
    inspector = ForeignWriteInspector()
    running = asyncio.create_task(inspector.run())
    try:
        yield inspector
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _shared(
    job: TargetJob, part: Range, source: Cluster, target: Cluster, inspector: ForeignWriteInspector
) -> Shared:
    limit = (await read_config(target.master(part.target.broker))).max_message_size
    options = job.options
    return Shared(
        source=source,
        target=target,
        options=options,
        budget=MemoryBudget(job.memory_bytes),
        limiter=RateLimiter(job.rate_messages, job.rate_bytes),
        dead_letters=DeadLetters.of(target, options, lambda _: limit),
        inspector=inspector,
        recovering=RecoverySlots(),
        message_limit=lambda _: limit,
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
