"""Sends an archive's queues in Spark's tasks, with the queue pair of the live path; its source task reads files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import offsets_of, size_of
from replicator.ranges.copier import refuse_later_start
from replicator.ranges.copy_job import CopyFailed, CopyOutcome, Range, TargetJob
from replicator.ranges.may_send import MaySend
from replicator.ranges.pair_run import TaskResources, run_pair
from replicator.ranges.suspend_guard import awake
from replicator.routing.channel import Channel, Chunk, Source
from replicator.routing.faults import QueueFailed, SourceEnded, SourceReset
from replicator.routing.message_filter import select
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions
from replicator.routing.pair import QueuePair
from replicator.routing.recovery import CopyRecord
from replicator.routing.shared import Shared
from replicator.routing.source_side import CopyAt
from replicator.routing.state import QueueState
from replicator.spark.engine.quiesce import for_attempt, settled
from replicator.spark.engine.tasks import bundles, run_rate_limited, together_as_task
from replicator.spark.jobs.archive import File, read
from replicator.spark.jobs.backfill import Gauge
from replicator.spark.jobs.location import Location

__all__ = ["Archived", "ImportJob", "import_all", "importing"]

#: The channel may hold the memory budget divided by this.
_SHARE: Final = 4
#: Reads that one turn of a thread is for; each gives a few messages.
_AT_ONCE: Final = 8


class Archived(NamedTuple):
    """A range, with the files of its messages."""

    part: Range
    files: tuple[File, ...]

    @property
    def queue(self) -> MessageQueue:
        """The source queue."""
        return MessageQueue(self.part.topic, *self.part.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportJob(TargetJob):
    """What all ranges have in common."""

    location: Location


def import_all(
    spark: Any,
    job: ImportJob,
    parts: Sequence[Archived],
    *,
    on_copied: Callable[[CopyOutcome], None],
    on_progress: Callable[[int], None],
) -> None:
    """Imports `parts`, a few in each Spark task; arguments and errors as for `copy_all`."""
    ranges = [each.part for each in parts]
    job = settled(job, ranges)
    gauge = Gauge(job.target, ranges)
    turns = bundles(spark, parts)
    run_rate_limited(spark, _import, job, turns, on_outcome=on_copied, on_tick=lambda: on_progress(gauge.moved()))


def _import(job: ImportJob, attempts: int, parts: Iterable[tuple[Archived, ...]]) -> Iterator[CopyOutcome]:
    return together_as_task(
        attempts,
        parts,
        lambda again: importing(for_attempt(job, again)),
        lambda each, error: CopyOutcome.failed(each.part, error),
    )


@asynccontextmanager
async def importing(job: ImportJob) -> AsyncIterator[Callable[[Archived], Awaitable[CopyOutcome]]]:
    """Imports ranges, for use in the context; those that are imported at a time share what the job allows a task.

    The function sends the messages of a range that are not at the target yet. It raises `CopyFailed` where a policy
    has stopped it, a file cannot be read, or there was no progress for too long.

    Raises:
        StartupError, ClientError: the target cannot be reached at all.
    """
    async with awake() as was_awake:
        may_send = MaySend(was_awake)
        async with job.target.connected(patience=job.stall_timeout, may_go_on=may_send) as target:
            yield partial(_import_range, job, TaskResources.of(job, target, target, may_send))


async def _import_range(job: ImportJob, task: TaskResources, archived: Archived) -> CopyOutcome:
    part = archived.part

    async def before(first: int) -> AsyncIterator[Sequence[StoredMessage]]:
        for messages in read(job.location, archived.queue, archived.files, start=part.start):
            kept, _ = select([m for m in messages if m.queue_offset < first], job.options, archived.queue)
            yield kept
            if messages[-1].queue_offset + 1 >= first:
                return

    def make(state: QueueState, shared: Shared, **more: Any) -> QueuePair:
        source = _ArchiveSource(state, shared, job.location, archived)
        return QueuePair(state, shared, end=part.end, source=source, **more)

    await refuse_later_start(job.options.identity, part, task.target, before)
    return await run_pair(job, part, task, make)


class _ArchiveSource:
    """An archive as the source of a queue pair; it does not change."""

    def __init__(self, state: QueueState, shared: Shared, location: Location, archived: Archived) -> None:
        self._state = state
        self._location = location
        self._archived = archived
        self._open = partial(_ArchiveTask, location, archived, state, shared)

    async def check(self) -> None:
        """Sets the position where there is none.

        Raises:
            CopyFailed: the archive is of another queue than the one that was copied.
            ReplicatorError: a file of the archive cannot be read.
        """
        progress = self._state.progress
        if progress.position is None:
            progress.position = await self.first_offset()
        if progress.last is not None and progress.last.stored:
            await asyncio.to_thread(self._refuse_other, progress.last)

    def _refuse_other(self, last: CopyRecord) -> None:
        """Compares store times: else a recreated topic would count as copied up to the last copy's offset."""
        found = self._newest(last.source)
        if found is None:
            return
        if found.queue_offset == last.source:
            same = found.store_timestamp == last.stored
        else:
            same = found.store_timestamp <= last.stored
        if not same:
            raise CopyFailed(
                f"{self._archived.part.key}: the archive's message at offset {found.queue_offset} was stored at"
                f" {found.store_timestamp}, the last copy at the target is of offset {last.source}, stored at"
                f" {last.stored}: the topic was deleted and recreated, or truncated",
                hint="import into another topic with --rename",
            )

    def _newest(self, most: int) -> StoredMessage | None:
        """The last archived message at the offset `most` or before it."""
        found = None
        files = [file for file in self._archived.files if file.first <= most]
        for messages in read(self._location, self._archived.queue, files[-1:], start=0):
            before = [message for message in messages if message.queue_offset <= most]
            found = before[-1] if before else found
            if len(before) < len(messages):
                break
        return found

    async def first_offset(self) -> int:
        assert self._state.progress.start is not None  # noqa: S101 - `run_pair` has set it
        return self._state.progress.start

    async def confirm(self, reset: SourceReset) -> None:
        raise reset

    async def after_reset(self, reset: SourceReset, copy_at: CopyAt) -> int:
        raise reset

    async def left_out(self, start: int, copy: CopyRecord) -> int | None:
        """Not known: an archive may lack messages that were copied."""
        return None

    async def open(self, channel: Channel, offset: int) -> Source:
        return self._open(channel, offset)

    def forget(self) -> None:
        """Nothing to check."""


class _ArchiveTask:
    """Reads files into a channel, as far ahead as the memory allows."""

    def __init__(
        self,
        location: Location,
        archived: Archived,
        state: QueueState,
        shared: Shared,
        channel: Channel,
        offset: int,
    ) -> None:
        self._end = archived.part.end
        self._state = state
        self._options: RouteOptions = shared.options
        self._budget = shared.budget
        self._channel = channel
        self._next = offset
        self._location = location
        self._queue = archived.queue
        self._chunks = read(location, archived.queue, archived.files, start=offset)
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return ""

    def start(self) -> None:
        self._reading = asyncio.create_task(self._read())

    def stop(self) -> None:
        assert self._reading is not None  # noqa: S101 - it was started
        self._reading.cancel()

    def pump(self) -> None:
        self._room.set()

    async def _read(self) -> None:
        """Reads as far ahead as it may; messages that the archive lacks count as gaps."""
        try:
            while chunks := await self._location.run(self._some):
                for messages in chunks:
                    self._put(messages, offsets_of(messages)[-1] + 1)
                await asyncio.sleep(0)  # what was read is sent while more is read, also where no thread reads it
                while self._channel.size * _SHARE > self._budget.limit:
                    self._room.clear()
                    await self._room.wait()
        except ReplicatorError as error:
            self._channel.fail(QueueFailed(str(error)))
        except Exception as error:  # noqa: BLE001 - the channel's reader raises it
            self._channel.fail(error)
        else:
            self._put([], self._end)
            self._channel.fail(SourceEnded("everything was read"))

    def _some(self) -> list[Sequence[StoredMessage]]:
        return list(islice(self._chunks, _AT_ONCE))

    def _put(self, messages: Sequence[StoredMessage], end: int) -> None:
        kept, copies = select(messages, self._options, self._queue, self._state.counters)
        counters = self._state.counters
        # What was read before the target was checked again is counted already.
        counters.gaps += counters.unread(self._next, end, offsets_of(messages))
        counters.read_up_to(end)
        self._next = end
        size = size_of(messages)
        self._budget.charge(size)
        self._channel.put(Chunk(kept, end, size, copies=copies))
