"""The worker's side of queues that live in Spark tasks: who copies which, for how long each task may send.

Each Spark task is a job of its own, with one task, which Spark starts again wherever there is room. The queues of
the worker are divided among as many jobs as Spark has slots. All but what runs in Spark is the worker's own: the
state of each queue is what its task reported last.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from replicator.aio.backoff import Backoff
from replicator.aio.own_thread import in_own_thread
from replicator.observe.logging import get_logger
from replicator.routing.state import Phase
from replicator.spark.resident.channel import Channel, ChannelLost
from replicator.spark.resident.job import ResidentJob
from replicator.spark.resident.messages import Drain, End, Grant, Hello, Part, Report, Work, read_said, write
from replicator.spark.resident.pair import ResidentPair, Slot
from replicator.spark.resident.snapshot import Known, put, snapshot

__all__ = ["Residents", "Room", "SparkJobs"]

#: Seconds that a task may send after it was allowed to, at most: so long a queue waits for another task.
_GRANT: Final = 3.0
#: Seconds until a job that ended is submitted again, or Spark is asked again: the first time, and at most.
_AGAIN_FIRST: Final = 1.0
_AGAIN_MOST: Final = 30.0
#: Seconds within which a task that is not needed any more must end by itself.
_ENDING: Final = 30.0
#: Seconds within which a new connection must say which job it is of.
_HELLO: Final = 10.0

_NO_TASK: Final = "waits for a Spark task: Spark has started none for it yet"
_LOST: Final = "its Spark task is gone: waits for Spark to start another one"

log = get_logger(__name__)


class Room(NamedTuple):
    """Where the worker listens (`bind`), where executors find it (`host`), and how many tasks run at once."""

    bind: str
    host: str
    slots: int


class SparkJobs(Protocol):
    """Spark, as far as it is needed; each call blocks its thread."""

    def open(self) -> Room:
        """Starts the session."""
        ...

    def run(self, job: ResidentJob) -> None:
        """Runs one job to its end."""
        ...

    def cancel(self, number: int) -> None:
        """Ends the job of that number, which may not have begun."""
        ...

    def close(self) -> None:
        """Cancels what runs, and ends the session."""
        ...


class Residents:
    """The queues of a worker that live in Spark tasks.

    Args:
        job: what all jobs have in common; number, address and key are put in.
        lease_left: seconds that this worker may still send.
        record: keeps what the audit has found.
    """

    def __init__(
        self,
        jobs: SparkJobs,
        job: Callable[..., ResidentJob],
        lease_left: Callable[[], float],
        record: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._jobs = jobs
        self._job = job
        self._lease_left = lease_left
        self._record = record
        self._waiting: list[ResidentPair] = []
        self._slots: dict[int, Slot] = {}
        self._numbers = 0
        self._key = secrets.token_bytes(32)
        self._wake = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    # What routes ask for.

    def add(self, pair: ResidentPair) -> None:
        """Has a Spark task copy a queue."""
        pair.state.set_phase(Phase.STARTING, _NO_TASK)
        self._waiting.append(pair)
        self._wake.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="resident queues")

    def drain(self, pair: ResidentPair) -> None:
        """Ends a queue once its task has settled it, or may not send any more."""
        slot = pair.slot
        if slot is None or not pair.given:
            self._remove(pair)
        elif slot.channel is not None:
            slot.channel.send(write(Drain([pair.state.key])))
        else:
            self._end_without_task(pair, slot)

    async def give_up(self, pair: ResidentPair) -> None:
        """Returns when no task may send to the queue any more; the other queues of its task begin again."""
        slot = pair.slot
        self._remove(pair)
        if slot is None or not pair.given:
            return
        if slot.channel is not None:
            slot.channel.close()
        await asyncio.sleep(slot.granted - asyncio.get_running_loop().time())

    def _end_without_task(self, pair: ResidentPair, slot: Slot) -> None:
        loop = asyncio.get_running_loop()

        def end() -> None:
            pair.state.progress.clean = False
            self._remove(pair)

        loop.call_at(max(slot.granted, loop.time()), end)

    def _remove(self, pair: ResidentPair) -> None:
        pair.ended.set()
        slot = pair.slot
        if slot is None:
            with suppress(ValueError):
                self._waiting.remove(pair)
        elif slot.pairs.pop(pair.state.key, None) is not None and not slot.pairs:
            slot.ending.set()
            if slot.channel is not None:
                slot.channel.send(write(End()))
        self._wake.set()

    # Spark.

    async def _run(self) -> None:
        """Runs Spark while there are queues."""
        backoff = Backoff(_AGAIN_FIRST, _AGAIN_MOST)
        while self._waiting:
            try:
                room = await in_own_thread(self._jobs.open)
                await self._serve(room)
                backoff.reset()
            except Exception as error:  # noqa: BLE001 - Spark's come as many types, and none may end the worker
                seconds = backoff.next()
                reason = f"Spark cannot be used: {error}"
                log.error("no Spark session", reason=str(error), seconds=seconds)
                for pair in self._waiting:
                    pair.state.set_phase(Phase.WAITING, reason)
                await asyncio.sleep(seconds)
            finally:
                await in_own_thread(self._jobs.close)

    async def _serve(self, room: Room) -> None:
        working: set[asyncio.Task[None]] = set()

        def begin(work: Coroutine[None, None, None]) -> None:
            task = asyncio.create_task(work)
            working.add(task)
            task.add_done_callback(working.discard)

        server = await asyncio.start_server(
            lambda reader, writer: begin(self._accept(reader, writer)), room.bind, 0
        )
        port = server.sockets[0].getsockname()[1]
        log.info("queues are copied by Spark", slots=room.slots, address=f"{room.host}:{port}")
        try:
            while self._waiting or self._slots:
                self._wake.clear()
                for slot in self._divide(room.slots):
                    job = self._job(number=slot.number, owner=(room.host, port), key=self._key)
                    begin(self._keep(slot, job))
                await self._wake.wait()
        finally:
            server.close()
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    def _divide(self, most: int) -> list[Slot]:
        """Gives each queue that waits to the job with the fewest; returns jobs that are to be submitted."""
        new = []
        for pair in self._waiting:
            slots = [slot for slot in self._slots.values() if not slot.ending.is_set()]
            slot = min(slots, key=lambda each: len(each.pairs), default=None)
            if slot is None or len(slots) < most:
                self._numbers += 1
                slot = self._slots[self._numbers] = Slot(self._numbers)
                new.append(slot)
            pair.slot = slot
            slot.pairs[pair.state.key] = pair
            if slot.channel is not None:
                self._give(slot, slot.channel, [pair])
        self._waiting.clear()
        return new

    async def _keep(self, slot: Slot, job: ResidentJob) -> None:
        """Has Spark run a job, again and again while it has queues."""
        backoff = Backoff(_AGAIN_FIRST, _AGAIN_MOST)
        ending = asyncio.create_task(slot.ending.wait())
        while not ending.done():
            running = asyncio.create_task(in_own_thread(lambda: self._jobs.run(job)))
            await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                # One that has not begun would wait for room, to be told that it is not needed.
                if slot.channel is None or not (await asyncio.wait({running}, timeout=_ENDING))[0]:
                    await in_own_thread(lambda: self._jobs.cancel(slot.number))
                await asyncio.wait({running})
                running.exception()  # ignored: the job is over
                break
            seconds, error = backoff.next(), running.exception()
            reason = "it ended by itself" if error is None else str(error).partition("\n")[0]
            log.warning("Spark job ended, and is submitted again", job=slot.number, reason=reason, seconds=seconds)
            await asyncio.wait({ending}, timeout=seconds)
        del self._slots[slot.number]
        self._wake.set()

    # Tasks.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = await Channel.accept(reader, writer, self._key)
        slot: Slot | None = None
        try:
            async with asyncio.timeout(_HELLO):
                hello = read_said(await channel.receive())
            slot = self._slots.get(hello.number) if isinstance(hello, Hello) else None
            if slot is None or not isinstance(hello, Hello):
                return
            if await self._is_the_one(slot, channel):
                if slot.ending.is_set():
                    channel.send(write(End()))
                log.info("Spark task began", job=slot.number, host=hello.host, queues=len(slot.pairs))
                self._give(slot, channel, slot.pairs.values())
                while True:
                    self._answer(slot, channel, read_said(await channel.receive()))
        except (ChannelLost, msgspec.MsgspecError, TimeoutError) as error:
            if slot is not None and slot.channel is channel and not slot.ending.is_set():
                log.warning("Spark task ended", job=slot.number, reason=str(error))
        finally:
            channel.close()
            if slot is not None and slot.channel is channel:
                self._lose(slot)

    async def _is_the_one(self, slot: Slot, channel: Channel) -> bool:
        """Makes `channel` that of the job's task, once no earlier task of it may send; not if a later one came."""
        slot.attempts += 1
        attempt = slot.attempts
        if slot.channel is not None:
            slot.channel.close()
            self._lose(slot)
        await asyncio.sleep(max(0.0, slot.granted - asyncio.get_running_loop().time()))
        if attempt != slot.attempts:
            return False
        slot.channel = channel
        return True

    def _lose(self, slot: Slot) -> None:
        slot.channel = None
        for pair in list(slot.pairs.values()):
            pair.state.set_phase(Phase.WAITING, _LOST)
            if pair.draining:
                self._end_without_task(pair, slot)

    def _give(self, slot: Slot, channel: Channel, pairs: Iterable[ResidentPair]) -> None:
        wanted = [pair for pair in pairs if not pair.draining]
        routes = {pair.route.name: pair.route.settings.model_dump(mode="json") for pair in wanted}
        channel.send(write(Work(routes, [_part(pair) for pair in wanted])))
        for pair in wanted:
            pair.given = True

    def _answer(self, slot: Slot, channel: Channel, report: object) -> None:
        if not isinstance(report, Report):
            raise ChannelLost("a task greets twice")
        for found in report.states:
            pair = slot.pairs.get(found.key)
            if pair is not None:
                put(pair.state, found)
                if found.ended:
                    self._remove(pair)
        for event in report.events:
            log.error("difference at the target", **event)
            self._record(event)
        seconds = max(0.0, min(_GRANT, self._lease_left()))
        slot.granted = asyncio.get_running_loop().time() + seconds
        channel.send(write(Grant(report.sequence, seconds, self._rates(slot))))

    def _rates(self, slot: Slot) -> dict[str, tuple[int, int]]:
        """The part of each route's limits that is the task's: that of its queues."""
        here = Counter(pair.route.name for pair in slot.pairs.values())
        all_slots = Counter(pair.route.name for each in self._slots.values() for pair in each.pairs.values())
        routes = {pair.route.name: pair.route for pair in slot.pairs.values()}
        shares = {name: here[name] / all_slots[name] for name in here}
        return {
            name: (_share(route.rates()[0], shares[name]), _share(route.rates()[1], shares[name]))
            for name, route in routes.items()
        }


def _share(limit: int, part: float) -> int:
    return max(1, round(limit * part)) if limit else 0


def _part(pair: ResidentPair) -> Part:
    state = pair.state
    return Part(
        pair.route.name,
        state.topic,
        state.source,
        pair.topic,
        state.target,
        pair.from_start,
        snapshot(state, Known()),
        state.progress.skew,
    )
