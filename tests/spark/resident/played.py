"""Spark as a test plays it: its jobs run in the test's own loop, as tasks that say what the test wants."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError, Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from replicator.routing.parked import ReleasedMessages
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.settings import RouteSettings
from replicator.spark.resident.channel import Channel, ChannelLost
from replicator.spark.resident.job import ResidentJob
from replicator.spark.resident.jobs import Room, SparkGone
from replicator.spark.resident.messages import (
    Drain,
    End,
    Grant,
    Hello,
    Part,
    Report,
    Work,
    read_worker_message,
    write,
)
from replicator.spark.resident.owner import Residents
from replicator.spark.resident.pair import ResidentPair, ResidentRoute
from replicator.spark.resident.snapshot import Known, snapshot
from tests.support.worker import until

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds that a task may send after each report.
GRANT = 0.4


class Task:
    """A task that a test plays: what it was told, and what it says."""

    def __init__(self, job: ResidentJob) -> None:
        self.job = job
        self.parts: dict[str, Part] = {}
        self.drains: list[str] = []
        #: What the limits were said to be when a queue was to end.
        self.rates: dict[str, tuple[int, int]] = {}
        self.grants: list[Grant] = []
        self.over = False
        #: It does not notice that its owner has dropped it.
        self.hangs = False
        self._sequence = 0

    async def run(self) -> None:
        self.channel = await Channel.connect(self.job.owner, self.job.key)
        self.channel.send(write(Hello(self.job.number, "here")))
        try:
            while not self.over:
                match read_worker_message(await self.channel.receive()):
                    case Work(routes, parts):
                        self.late_before = routes["route"].late_before
                        self.parts |= {part.state.key: part for part in parts}
                    case Drain(keys, rates):
                        self.drains += keys
                        self.rates = rates
                    case Grant() as grant:
                        self.grants.append(grant)
                    case End():
                        self.over = True
        except ChannelLost:
            if self.hangs:
                await asyncio.get_running_loop().create_future()
        finally:
            self.over = True
            self.channel.close()

    def report(self, *states: QueueState, ended: bool = False, events: list[dict[str, Any]] | None = None) -> None:
        self._sequence += 1
        found = [snapshot(state, Known(), ended=ended) for state in states]
        self.channel.send(write(Report(self._sequence, found, events or [])))

    def state(self, key: str, position: int) -> QueueState:
        part = self.parts[key]
        state = QueueState(part.topic, part.source, part.target, route=part.route)
        state.set_phase(Phase.RUNNING)
        state.progress.position = position
        return state


class Spark:
    """Runs jobs as tasks in the test's own loop; each call still comes from a thread."""

    def __init__(self, slots: int) -> None:
        self.most = slots
        self.gone = False
        #: Jobs find no room.
        self.full = False
        self.tasks: list[Task] = []
        self.opened = 0
        self.refusal = ""
        self.running: dict[int, Future[None]] = {}
        self._loop = asyncio.get_running_loop()

    def open(self) -> Room:
        if self.refusal:
            raise RuntimeError(self.refusal)
        self.opened += 1
        return Room("127.0.0.1", "127.0.0.1")

    def slots(self) -> int:
        return self.most

    def run(self, job: ResidentJob) -> None:
        if self.gone:
            raise SparkGone("its JVM has ended")
        task = Task(job)
        try:
            if self.full:
                self.running[job.number] = Future()
                self.running[job.number].result()
            self._loop.call_soon_threadsafe(self.tasks.append, task)
            running = self.running[job.number] = asyncio.run_coroutine_threadsafe(task.run(), self._loop)
            running.result()
        except CancelledError:
            raise RuntimeError("the job was cancelled") from None

    def cancel(self, number: int) -> None:
        self.running[number].cancel()

    def close(self) -> None:
        self.opened -= 1 if self.opened else 0


class Scene:
    def __init__(self, slots: int) -> None:
        self.spark = Spark(slots)
        self.left = 100.0
        job = cast("Callable[..., ResidentJob]", SimpleNamespace)
        self.recorded: list[Any] = []
        #: How often there were no queues, and one came.
        self.firsts = 0
        self.residents = Residents(self.spark, job, lambda: self.left, self.recorded.append, self._first)
        self.runs: list[asyncio.Task[None]] = []
        self.rates = (1000, 0)
        self.route = ResidentRoute("route", RouteSettings(), 1234, lambda: self.rates, ReleasedMessages())

    def _first(self) -> None:
        self.firsts += 1

    def add(self, number: int, *, clean: bool = False) -> ResidentPair:
        state = QueueState("T", Queue("a", number), Queue("b", number), route="route")
        state.progress.clean = clean
        pair = ResidentPair(state, self.residents, self.route, topic="T", from_start=False)
        self.runs.append(asyncio.create_task(pair.run()))
        return pair

    async def tasks(self, count: int) -> list[Task]:
        """Those that are under way, once each of so many has something to copy."""

        def there() -> list[Task] | None:
            live = [task for task in self.spark.tasks if not task.over and task.parts]
            return live if len(live) == count else None

        return cast("list[Task]", await until(there, seconds=10))
