"""The worker's side of queues that live in Spark tasks: who copies which, for how long each task may send.

Each Spark task is a job of its own, with one task, which Spark starts again wherever there is room. The queues of
the worker are divided among as many jobs as Spark has slots. All but what runs in Spark is the worker's own: the
state of each queue is what its task reported last.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final

import msgspec

from replicator.aio.backoff import Backoff
from replicator.aio.own_thread import in_own_thread
from replicator.observe.logging import get_logger
from replicator.routing.state import Phase
from replicator.spark.resident.channel import Channel, ChannelLost
from replicator.spark.resident.job import ResidentJob
from replicator.spark.resident.job_run import keep_running
from replicator.spark.resident.jobs import Room, SparkGone, SparkJobs
from replicator.spark.resident.messages import Drain, End, Grant, Hello, Report, read_task_message, write
from replicator.spark.resident.pair import AGAIN_FIRST, AGAIN_MOST, ResidentPair, Slot
from replicator.spark.resident.snapshot import put
from replicator.spark.resident.work import RateShares, work_of

__all__ = ["Residents"]

#: Seconds that a task may send after it was allowed to, at most: so long a queue of a lost task waits for another.
_GRANT: Final = 3.0
#: Seconds without a report, of which one comes each half a second, after which a task is dropped: it hangs, or the
#: network drops what it says. And as many again until its job is cancelled, if Spark has not started another task.
_SILENT: Final = 10.0
#: Seconds that Spark has to start another task in the place of a lost one, before its slots are counted.
_REPLACED: Final = 15.0
#: Seconds within which a new connection must say which job it is of, and bytes that this takes at most.
_HELLO: Final = 10.0
_HELLO_BYTES: Final = 4096

_NO_TASK: Final = "waits for a Spark task: none has started, and reached both clusters, yet"
_LOST: Final = "its Spark task is gone: waits for Spark to start another one"
_HANGS: Final = "its Spark task does not report: waits for Spark to start another one"

log = get_logger(__name__)


class _Silent(ChannelLost):
    """A task does not report."""


class Residents:
    """The queues of a worker that live in Spark tasks.

    Args:
        job: what all jobs have in common; number, address and key are put in.
        lease_left: seconds that this worker may still send.
        record: keeps what the audit has found.
        on_first: called when there were no queues, and one comes: their jobs keep Spark's slots from now on.
    """

    def __init__(
        self,
        jobs: SparkJobs,
        job: Callable[..., ResidentJob],
        lease_left: Callable[[], float],
        record: Callable[[Mapping[str, Any]], None],
        on_first: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._job = job
        self._lease_left = lease_left
        self._record = record
        self._on_first = on_first
        self._waiting: list[ResidentPair] = []
        self._slots: dict[int, Slot] = {}
        self._numbers = 0
        #: Until when (the loop's clock) an earlier task may send to a queue, by its key.
        self._busy: dict[str, float] = {}
        self._shares = RateShares(self._slots)
        self._key = secrets.token_bytes(32)
        self._wake = asyncio.Event()
        self._gone = ""
        self._wake_at = -inf
        self._running: asyncio.Task[None] | None = None

    # What routes ask for.

    @property
    def has_queues(self) -> bool:
        """Whether any queue lives in Spark, or is to."""
        return bool(self._waiting or self._slots)

    def add(self, pair: ResidentPair) -> None:
        """Has a Spark task copy a queue."""
        pair.state.set_phase(Phase.STARTING, _NO_TASK)
        if not self.has_queues:
            self._on_first()
        self._waiting.append(pair)
        self._wake.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="resident queues")

    def drain(self, pair: ResidentPair) -> None:
        """Ends a queue once its task has settled it, or may not send any more."""
        slot, busy = pair.slot, self._busy.get(pair.state.key)
        if slot is None and busy is not None:
            self._end_later(pair, busy)
        elif slot is None or not pair.given:
            self._remove(pair)
        elif slot.channel is not None:
            slot.channel.send(write(Drain([pair.state.key], self._shares.of(slot))))
        else:
            self._end_later(pair, slot.granted)

    async def give_up(self, pair: ResidentPair) -> None:
        """Returns when no task may send to the queue any more; the other queues of its task begin again."""
        slot = pair.slot
        if slot is not None and pair.given:
            if pair.draining and slot.channel is not None:  # it may be about to end
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GRANT):
                        await pair.ended.wait()
            if not pair.ended.is_set():
                self._disconnect(slot, _LOST)
                self._busy[pair.state.key] = slot.granted
        self._remove(pair)
        busy = self._busy.get(pair.state.key, -inf)
        await asyncio.sleep(max(0.0, busy - asyncio.get_running_loop().time()))

    def _end_later(self, pair: ResidentPair, granted: float) -> None:
        """Ends a queue that no task will end, when none may send to it any more."""
        loop = asyncio.get_running_loop()
        loop.call_at(max(granted, loop.time()), self._remove, pair)

    def _remove(self, pair: ResidentPair) -> None:
        slot, key = pair.slot, pair.state.key
        if pair.ended.is_set():
            return
        if not pair.given:
            pair.state.progress.clean = pair.clean
        pair.ended.set()
        if slot is None:
            with suppress(ValueError):
                self._waiting.remove(pair)
        elif slot.pairs.get(key) is pair:
            del slot.pairs[key]
            if not slot.pairs:
                slot.ending.set()
                if slot.channel is not None:
                    slot.channel.send(write(End()))
        self._wake.set()

    # Spark.

    async def _run(self) -> None:
        """Runs Spark while there are queues."""
        backoff = Backoff(AGAIN_FIRST, AGAIN_MOST)
        while self._waiting:
            try:
                room = await in_own_thread(self._jobs.open)
                await self._serve(room, backoff)
            except Exception as error:  # noqa: BLE001 - Spark's come as many types, and none may end the worker
                seconds = backoff.next()
                log.error("no Spark session", reason=str(error), seconds=seconds)
                for pair in self._waiting:
                    pair.state.set_phase(Phase.WAITING, f"Spark cannot be used: {error}")
                await asyncio.sleep(seconds)
            finally:
                with suppress(Exception):  # of a JVM that is gone
                    await in_own_thread(self._jobs.close)

    async def _serve(self, room: Room, backoff: Backoff) -> None:
        working: set[asyncio.Task[None]] = set()
        self._gone = ""

        def begin(work: Coroutine[None, None, None]) -> None:
            task = asyncio.create_task(work)
            working.add(task)
            task.add_done_callback(working.discard)

        server = await asyncio.start_server(
            lambda reader, writer: begin(self._accept(reader, writer, backoff)), room.bind, 0
        )
        address = (room.host, server.sockets[0].getsockname()[1])
        log.info("queues are copied by Spark", address=f"{address[0]}:{address[1]}")
        try:
            while self._waiting or self._slots:
                self._wake.clear()
                most = await in_own_thread(self._jobs.slots)
                self._close_surplus(most)
                for slot in self._divide(most):
                    begin(self._keep(slot, self._job(number=slot.number, owner=address, key=self._key)))
                await self._wake.wait()
                if self._gone:
                    raise SparkGone(self._gone)
        finally:
            server.close()
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            self._take_back()

    def _take_back(self) -> None:
        """All queues wait again: for another session, when no task of this one may send any more."""
        for slot in self._slots.values():
            self._take_from(slot)
        self._slots.clear()

    def _take_from(self, slot: Slot) -> None:
        """The queues of a job wait again; none is sent to before the job's task may not send any more."""
        self._disconnect(slot, _LOST)
        for key, pair in slot.pairs.items():
            self._busy[key] = slot.granted
            pair.slot = None
            if not pair.draining:
                pair.given = pair.clean = False
                self._waiting.append(pair)
        slot.pairs.clear()

    def _close_surplus(self, most: int) -> None:
        """Ends jobs that Spark has no slot for any more, after it lost executors: their queues go to the others."""
        loop = asyncio.get_running_loop()
        slots = [slot for slot in self._slots.values() if not slot.ending.is_set()]
        homeless = [slot for slot in slots if slot.attempts and slot.channel is None]
        if not homeless or all(slot.channel is None for slot in slots):
            return  # then all of them may come back
        if self._wake_at <= loop.time():
            self._wake_at = loop.time() + _REPLACED
            loop.call_at(self._wake_at, self._wake.set)
        late = [slot for slot in homeless if loop.time() - slot.lost_at >= _REPLACED]
        for slot in late[: max(0, len(slots) - most)]:
            log.warning("Spark has fewer slots: queues go to other tasks", job=slot.number, queues=len(slot.pairs))
            self._take_from(slot)
            slot.ending.set()

    def _divide(self, most: int) -> list[Slot]:
        """Gives each queue that waits to the job with the fewest; returns jobs that are to be submitted."""
        loop, new = asyncio.get_running_loop(), []
        commands: dict[Slot, list[ResidentPair]] = {}
        later: list[ResidentPair] = []
        self._busy = {key: until for key, until in self._busy.items() if until > loop.time()}
        for pair in self._waiting:
            if pair.state.key in self._busy:
                later.append(pair)
                continue
            slots = [slot for slot in self._slots.values() if not slot.ending.is_set()]
            slot = min(slots, key=lambda each: len(each.pairs), default=None)
            if slot is None or len(slots) < most:
                self._numbers += 1
                slot = self._slots[self._numbers] = Slot(self._numbers)
                new.append(slot)
            pair.slot = slot
            slot.pairs[pair.state.key] = pair
            commands.setdefault(slot, []).append(pair)
        self._waiting = later
        if later:
            loop.call_at(min(self._busy.values()), self._wake.set)
        self._shares.forget()
        for slot, pairs in commands.items():
            if slot.channel is not None:
                self._give(slot, slot.channel, pairs)
        return new

    async def _keep(self, slot: Slot, job: ResidentJob) -> None:
        gone = await keep_running(self._jobs, slot, job)
        if gone:
            self._gone = gone
        else:
            del self._slots[slot.number]
        self._wake.set()

    # Tasks.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, backoff: Backoff) -> None:
        channel = await Channel.accept(reader, writer, self._key)
        slot: Slot | None = None
        try:
            async with asyncio.timeout(_HELLO):
                hello = read_task_message(await channel.receive(_HELLO_BYTES))
            slot = self._slots.get(hello.number) if isinstance(hello, Hello) else None
            if slot is None or not isinstance(hello, Hello):
                return
            if await self._is_the_one(slot, channel):
                if slot.ending.is_set():
                    channel.send(write(End()))
                log.info("Spark task began", job=slot.number, host=hello.host, queues=len(slot.pairs))
                slot.backoff.reset()
                backoff.reset()
                self._give(slot, channel, slot.pairs.values())
                while slot.channel is channel:
                    self._answer(slot, channel, read_task_message(await self._heard(channel)))
        except (ChannelLost, msgspec.MsgspecError, TimeoutError) as error:
            if slot is not None and slot.channel is channel and not slot.ending.is_set():
                log.warning("Spark task ended", job=slot.number, reason=str(error))
                if isinstance(error, _Silent):
                    self._disconnect(slot, _HANGS)
                    await self._replace(slot)
        finally:
            channel.close()
            if slot is not None and slot.channel is channel:
                self._disconnect(slot, _LOST)

    async def _heard(self, channel: Channel) -> bytes:
        """What a task reports; `ChannelLost` if it is gone, or does not report."""
        try:
            async with asyncio.timeout(_SILENT):
                return await channel.receive()
        except TimeoutError:
            raise _Silent(f"it has not reported for {_SILENT:g} s") from None

    async def _replace(self, slot: Slot) -> None:
        """Has the job of a silent task submitted again, unless Spark starts another task of it."""
        attempt = slot.attempts
        await asyncio.sleep(_SILENT)
        if slot.attempts == attempt and not slot.ending.is_set():
            with suppress(Exception):  # then it has ended
                await in_own_thread(lambda: self._jobs.cancel(slot.number))

    async def _is_the_one(self, slot: Slot, channel: Channel) -> bool:
        """Makes `channel` that of the job's task, once no earlier task of it may send; not if a later one came."""
        slot.attempts += 1
        attempt = slot.attempts
        self._disconnect(slot, _LOST)
        await asyncio.sleep(max(0.0, slot.granted - asyncio.get_running_loop().time()))
        if attempt != slot.attempts:
            return False
        slot.channel = channel
        self._wake.set()
        return True

    def _disconnect(self, slot: Slot, reason: str) -> None:
        """The task of a job is gone, or is not to go on; nothing is granted to it any more."""
        channel, slot.channel = slot.channel, None
        if channel is None:
            return
        channel.close()
        slot.lost_at = asyncio.get_running_loop().time()
        self._wake.set()
        for pair in slot.pairs.values():
            pair.state.set_phase(Phase.WAITING, reason)
            if pair.draining:
                self._end_later(pair, slot.granted)

    def _give(self, slot: Slot, channel: Channel, pairs: Iterable[ResidentPair]) -> None:
        wanted = [pair for pair in pairs if not pair.draining]
        for work in work_of(wanted, self._shares.of(slot)):
            channel.send(write(work))
        for pair in wanted:
            pair.given, pair.clean = True, False

    def _answer(self, slot: Slot, channel: Channel, report: object) -> None:
        if not isinstance(report, Report):
            raise ChannelLost("a task sent Hello twice")
        for found in report.states:
            pair = slot.pairs.get(found.key)
            if pair is not None and pair.given:
                put(pair.state, found)
                if found.ended:
                    self._remove(pair)
                else:  # what a task has not begun is clean there, but the task may begin at any time
                    pair.state.progress.clean = False
        for event in report.events:
            log.error("difference at the target", **event)
            self._record(event)
        if slot.channel is not channel:
            return
        seconds = max(0.0, min(_GRANT, self._lease_left()))
        # Not before the task's own end of it, which counts from its question. And since the end of the lease never
        # moves back, no grant ends before an earlier one.
        slot.granted = asyncio.get_running_loop().time() + seconds
        skews = {pair.state.source.broker: pair.state.progress.skew for pair in slot.pairs.values()}
        channel.send(write(Grant(report.sequence, seconds, self._shares.of(slot), time.time(), skews)))
