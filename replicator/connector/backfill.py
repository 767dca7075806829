"""The backlog of queues that start here, copied by Spark; their live tasks continue after it.

Tasks keep their owners: Spark works for the owner, under a lease that the owner's heartbeats grant (see
`job_lease`). Whatever goes wrong with Spark, the live tasks copy the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset
from replicator.client.cluster import Cluster
from replicator.connector.spark_jobs import Bulk, Claim
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions
from replicator.routing.pair import QueuePair
from replicator.routing.state import Phase, QueueState
from replicator.settings import RouteSettings

if TYPE_CHECKING:  # a worker that has nothing for Spark to do does without
    from replicator.ranges.copy_job import CopyJob, CopyOutcome, Range

__all__ = ["Backfill"]

#: Requests made at the same time.
_AT_ONCE: Final = 32
#: Messages that queues which came after the route had begun hold together, from which on they have a history,
#: as a topic that was selected later has. One that was just created holds fewer, and goes on live at once.
_HISTORY: Final = 1000
#: Seconds that a cancelled job may take to end before its queues continue without it.
_ENDING: Final = 30.0

log = get_logger(__name__)


class _Stopped(Exception):
    """The job is cancelled."""


class _Run:
    """Queues that started together; `waiting` are those whose live tasks may not continue yet.

    `before` are set when the previous run of these queues has released them.
    """

    def __init__(self, pairs: Mapping[MessageQueue, QueuePair], before: Collection[asyncio.Event]) -> None:
        self.pairs = dict(pairs)
        self.before = before
        self.waiting = {key: asyncio.Event() for key in pairs}
        self.stopped: set[MessageQueue] = set()
        self.stop = asyncio.Event()

    def give_up(self, keys: Iterable[MessageQueue]) -> None:
        """The live tasks of these queues copy the rest."""
        self.stopped.update(keys)
        self.stop.set()


class Backfill:
    """The backfill of the route `name`, whose source is `source`.

    Args:
        task_of: the task that a queue belongs to.
        rates: messages and bytes per second that Spark may send; 0: no limit.
        on_over: called when queues continue with their live tasks.
    """

    def __init__(
        self,
        name: str,
        settings: RouteSettings,
        options: RouteOptions,
        source: Cluster,
        bulk: Bulk,
        *,
        task_of: Callable[[MessageQueue], str],
        rates: Callable[[], tuple[int, int]],
        on_over: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._options = options
        self._source = source
        self._bulk = bulk
        self._task_of = task_of
        self._rates = rates
        self._on_over = on_over
        self._log = log.bind(connector=name)
        # A rebuilt route must wait for what its predecessor started.
        self._runs: dict[MessageQueue, _Run] = bulk.runs.setdefault(name, {})

    @property
    def queues(self) -> int:
        """How many queues wait."""
        return len(self._runs)

    @property
    def _wanted(self) -> bool:
        worker = self._bulk.settings
        if worker.standalone or self._settings.engine == "spark":
            return False
        if self._settings.backfill is None:
            return worker.spark_master is not None and not self._settings.transforms
        return self._settings.backfill

    def begin(self, pairs: Mapping[MessageQueue, QueuePair], group: asyncio.TaskGroup) -> None:
        """Has Spark copy the backlog of the queues of `pairs`, if that is wanted; each has to wait for `over`."""
        before = [self._runs[key].waiting[key] for key in pairs if key in self._runs]
        if pairs and (self._wanted or before):
            run = _Run(pairs, before)
            self._runs.update(dict.fromkeys(pairs, run))
            group.create_task(self._run(run), name="backfill")

    async def over(self, key: MessageQueue) -> None:
        """Returns when the live task of a queue may continue, and no Spark task may send to it any more."""
        run = self._runs.get(key)
        if run is not None:
            await run.waiting[key].wait()

    def stop(self, keys: Iterable[MessageQueue]) -> None:
        """Stops the backfill of queues; it is over when their leases expire. The job's other queues restart."""
        for key in keys:
            run = self._runs.get(key)
            if run is not None:
                run.give_up([key])

    async def _run(self, run: _Run) -> None:
        try:
            for given_up in run.before:
                await given_up.wait()
            parts = await self._parts(run)
            self._release(run, run.waiting.keys() - parts.keys())
            while left := {key: part for key, part in parts.items() if key in run.waiting}:
                await self._once(run, left)
        except Exception as error:  # noqa: BLE001 - Spark's come as many types, and none may end the worker
            reason = f"{type(error).__name__}: {error}"
            self._log.error("backfill ended early: the live tasks copy the rest", reason=reason)
        finally:
            self._release(run, run.waiting.keys())

    def _release(self, run: _Run, keys: Iterable[MessageQueue]) -> None:
        for key in list(keys):
            state = run.pairs[key].state
            if state.phase is Phase.BACKFILLING:
                state.set_phase(Phase.STARTING)
            run.waiting.pop(key).set()
            if self._runs.get(key) is run:
                del self._runs[key]
        self._on_over()

    async def _parts(self, run: _Run) -> dict[MessageQueue, Range]:
        """What Spark is to copy of each queue; nothing where it is too little for it."""
        if not self._wanted:
            return {}
        if self._bulk.has_residents:
            self._log.warning("other queues live in Spark and keep its slots: the live tasks copy the backlog")
            return {}
        found = await bounded(self._part, run.pairs.values(), at_once=_AT_ONCE)
        parts = {key: part for key, part in zip(run.pairs, found, strict=True) if part is not None}
        if not self._settings.backfill:
            return parts if _messages(parts.values()) >= self._settings.backfill_min_lag else {}
        late = {key for key in parts if run.pairs[key].from_start}
        if _messages(parts[key] for key in late) >= _HISTORY:
            return parts
        return {key: part for key, part in parts.items() if key not in late}

    async def _part(self, pair: QueuePair) -> Range | None:
        from replicator.ranges.copy_job import Range  # noqa: PLC0415

        state = pair.state
        if self._settings.backfill and state.progress.position is not None:
            return None  # it has been copied before
        start = await pair.source.first_offset() if state.progress.position is None else state.progress.position
        reader = self._source.reader(state.source.broker)
        end = await max_offset(reader, state.topic, state.source.queue_id)
        return Range(state.topic, state.source, pair.topic, state.target, start, end) if start < end else None

    async def _once(self, run: _Run, parts: Mapping[MessageQueue, Range]) -> None:
        """Has Spark copy `parts`; returns when it has, or when some of the queues are given up.

        Another route's job may take hours: queues that are given up do not wait for their turn.
        """
        turn = asyncio.ensure_future(self._bulk.turn.acquire())
        stopping = asyncio.ensure_future(run.stop.wait())
        try:
            await asyncio.wait({turn, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not run.stop.is_set():
                await self._by_spark(run, parts)
        finally:
            stopping.cancel()
            if not turn.done():
                turn.cancel()
            elif not turn.cancelled():
                self._bulk.turn.release()
        run.stop.clear()
        self._release(run, run.stopped & run.waiting.keys())

    async def _by_spark(self, run: _Run, parts: Mapping[MessageQueue, Range]) -> None:
        loop = asyncio.get_running_loop()
        stopping = asyncio.ensure_future(run.stop.wait())
        for key in parts:  # whatever becomes of the job, its tasks may have sent something that is not stored yet
            run.pairs[key].unsettle()
        async with self._bulk.claiming(lambda: set(map(self._task_of, run.waiting))) as claim:
            copying = asyncio.ensure_future(asyncio.to_thread(self._copy, run, parts, self._job(claim), loop))
            try:
                await asyncio.wait({copying, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()
                claim.given_up = not copying.done() or copying.exception() is not None
                if not copying.done():
                    run.stop.set()  # where this was cancelled, too: the thread must end
        if run.stopped & run.waiting.keys():
            self._log.info("backfill interrupted: some of its tasks end here", queues=len(run.stopped))
            self._release(run, run.stopped & run.waiting.keys())
            await asyncio.wait({copying}, timeout=_ENDING)
        if not copying.done():
            raise ReplicatorError("Spark does not end the job")
        if not isinstance(copying.exception(), _Stopped):
            copying.result()
            self._release(run, run.waiting.keys())

    def _job(self, claim: Claim) -> CopyJob:
        from replicator.ranges.copy_job import CopyJob  # noqa: PLC0415

        messages, size = self._rates()
        whole = CopyJob.of(self._bulk.settings, self._options)
        return replace(whole, rate_messages=messages, rate_bytes=size, lease=claim.lease)

    def _copy(
        self, run: _Run, parts: Mapping[MessageQueue, Range], job: CopyJob, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Runs the job to its end; in a thread of its own, while the worker's `loop` continues."""
        from replicator.spark.engine.session import session  # noqa: PLC0415
        from replicator.spark.jobs.backfill import copy_all  # noqa: PLC0415

        keys = {part.key: key for key, part in parts.items()}
        total = _messages(parts.values())
        self._log.info("backfill begins", queues=len(parts), messages=total)

        def copied(outcome: CopyOutcome) -> None:
            loop.call_soon_threadsafe(self._copied, run, keys[outcome.key], outcome)

        def progress(moved: int) -> None:
            if run.stop.is_set():
                raise _Stopped
            loop.call_soon_threadsafe(self._show_progress, run, parts, moved, total)

        with session(master=self._bulk.settings.spark_master) as spark:
            progress(0)
            copy_all(spark, job, list(parts.values()), on_copied=copied, on_progress=progress)
        self._log.info("backfill ended", queues=len(parts))

    def _show_progress(self, run: _Run, parts: Iterable[MessageQueue], moved: int, total: int) -> None:
        for key in parts:
            if key in run.waiting:
                run.pairs[key].state.set_phase(Phase.BACKFILLING, f"by Spark: {moved} of {total} messages")

    def _copied(self, run: _Run, key: MessageQueue, outcome: CopyOutcome) -> None:
        if key not in run.waiting or key in run.stopped:
            return  # the queue's next owner reads from the target what has arrived
        try:
            if outcome.error:
                self._log.warning(
                    "backfill of a queue ended early: its live task continues", queue=str(key), reason=outcome.error
                )
            else:
                _take(run.pairs[key].state, outcome, audited=self._options.audit_share > 0)
        finally:
            self._release(run, [key])


def _messages(parts: Iterable[Range]) -> int:
    return sum(part.end - part.start for part in parts)


def _take(state: QueueState, outcome: CopyOutcome, *, audited: bool) -> None:
    """What Spark has copied counts as if it had been copied here."""
    progress, counters, audit = state.progress, state.counters, state.audit
    progress.start = outcome.start if progress.start is None else progress.start
    progress.position = outcome.end
    if outcome.resets:  # what was known is of a source queue that is no more
        progress.offsets.clear()
        progress.seen = None
        counters.skipped_to = 0
        audit.restart()
    not_verified = 0 if audit.verified_to is None else progress.offsets.count_from(audit.verified_to)
    if outcome.tail is not None:
        source, stored, target = outcome.tail
        progress.position = max(outcome.end, source + 1)
        if (last := progress.last) is None or (source > last.source and target > last.target):
            progress.offsets.add(source, target, 1)
            progress.store_timestamp = stored
    if audited or audit.verified_to is not None:
        # Of Spark's copies only the last one gets into the offset map: the audit would take the others for missing.
        audit.pass_over(not_verified + outcome.copied + outcome.before, progress.position, "backfill")
    counters.copied += outcome.copied
    counters.gaps += outcome.gaps
    counters.resets += outcome.resets
    counters.duplicates += outcome.duplicates
    counters.foreign += outcome.foreign
    for reason, count in outcome.left_out.items():
        counters.skip(reason, count)
    counters.read_up_to(outcome.end)
