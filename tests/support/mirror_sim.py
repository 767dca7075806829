"""Workers over two clusters in virtual time: the real group and its mirror, with faults that a seed decides.

Each cluster has brokers with a queue of each system topic. A message is stored on up to three of them, each reader
reads each queue in order, and late now and then. A cluster can be away as a whole, a worker can be cut off from
either, killed, and lose its disk. A worker that does not find the cluster of its leases stands by at the target.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from replicator.errors import Unreachable
from replicator.group import freshness, inbox, member, mirror
from replicator.group.assignment import sticky
from replicator.group.coordinator import Coordinator
from replicator.group.member import Topics
from replicator.group.membership import Membership
from replicator.group.mirror import Mirror
from replicator.group.no_log import NoLog
from replicator.group.other_log import SOURCE, STARTED
from replicator.group.signature import Signer
from replicator.state.record import Kind
from replicator.state.store import Store
from tests.support.members import member_of
from tests.support.simulated_log import Cluster, Log

__all__ = ["Side", "TwoClusters", "patch_clocks"]

Side = Literal["source", "target"]
TOPICS: Final = Topics("source_online", "sink_online", "control")
TIMEOUT, LEASE, DELAY, BEAT, TICK, PUBLISH, LOOK = 5.0, 3.5, 0.5, 1.0, 0.25, 0.5, 2.0
#: Records that a new worker finds however old they are; heartbeats that are older are of no use.
PAST: Final = {TOPICS.source_online: 2 * TIMEOUT, TOPICS.sink_online: 2 * TIMEOUT, TOPICS.control: 1e9}

_process: ContextVar[Process] = ContextVar("process")


def patch_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the group's modules read the clock of the process that runs."""
    for module in (freshness, inbox, member, mirror):
        if hasattr(module, "now"):
            monkeypatch.setattr(module, "now", lambda: _process.get().now())


class Process:
    """A worker while it lives: with its source, or standing by."""

    def __init__(self, world: TwoClusters, name: str, coordination: Side) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.cut: set[str] = set()
        self.offset = world.random.uniform(-1e4, 1e4)
        self.ended_by = ""
        self.started_after_stop = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.coordination: Side = coordination
        self.coordinator = Coordinator(name, strategy=sticky, timeout=TIMEOUT, lease=LEASE, delay=DELAY)
        self.store = Store(world.directory / name)
        self.store.state.worker = name
        self.standby = False
        self.spawn(self._live())

    def now(self) -> float:
        return self.offset + self.world.loop.time()

    def reaches(self, cluster: Cluster) -> bool:
        return self.alive and not cluster.away and cluster.name not in self.cut

    def spawn(self, work: Any) -> None:
        async def within() -> None:
            _process.set(self)
            await work

        task = self.world.loop.create_task(within())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.world.errors.append(task.exception())

    def kill(self) -> None:
        self.alive = False
        for task in self._tasks:
            task.cancel()
        self.world.loop.call_soon(self.store.close)

    def sends(self, task: str) -> bool:
        """Whether it may send what a task has, and reaches the target."""
        running = task in self.coordinator.running and self.coordinator.holds_lease(self.now())
        return running and self.reaches(self.world.target)

    # What a worker does.

    async def _live(self) -> None:
        own = self.world.clusters[self.coordination]
        self.standby = self.coordination == "source" and not self.reaches(own)
        self.group = member_of(self.coordinator, self.store, topics=TOPICS)
        self.mirror = Mirror(
            "g",
            "east",
            Membership(self.name, timeout=TIMEOUT),
            self.store,
            TOPICS,
            signer=Signer(),
            coordination=self.coordination,
            on_records=lambda _: None,
            on_change=lambda: None,
        )
        self.mirror.stands_by = self.standby
        self.group.on_publish = self.mirror.note
        at_target = {topic: PAST[topic] for topic in (TOPICS.source_online, TOPICS.control)}
        self.mirror.use(
            Log(self, self.world.target, at_target, self.mirror.on_said, self.mirror.on_caught_up),
            lambda read: Log(self, self.world.target, {TOPICS.control: 1e9}, self.mirror.on_past, read),
        )
        self.spawn(self._open_mirror())
        self.spawn(self._every(BEAT, lambda: self.mirror.beat(self._info(), self.coordinator.stage)))
        self.spawn(self._every(PUBLISH, self.mirror.flush))
        if self.standby:
            self.group.use(NoLog())
            self.spawn(self._stand_by())
            return
        log = Log(self, own, PAST, self.group.on_said, self.group.join)
        self.group.use(log)
        try:
            await log.open({})
        except Unreachable:  # as a start that fails: it begins again
            self.world.restart(self)
            return
        self.spawn(self._every(BEAT, self._beat))
        await self.group.joined.wait()
        self.group.recall()
        self._bring()
        self.spawn(self._every(PUBLISH, self.group.publish))
        self.spawn(self._every(TICK, self._turn))

    async def _open_mirror(self) -> None:
        await self.mirror.open(dict)
        await self.mirror.beat(self._info(), self.coordinator.stage)
        await self.mirror.read({})

    async def _every(self, period: float, do: Callable[[], Any]) -> None:
        while True:
            await do()
            await asyncio.sleep(period * self.world.random.uniform(0.95, 1.1))

    async def _stand_by(self) -> None:
        republished = False
        while not self.reaches(self.world.clusters["source"]):
            if self.mirror.caught_up and not republished:
                republished = True
                await self.mirror.write_all()
            await asyncio.sleep(LOOK)
        await self.mirror.flush()
        self.world.restart(self)

    async def _beat(self) -> None:
        await self.group.beat(self._info(), target_reachable=self.reaches(self.world.target))

    def _info(self) -> dict[str, Any]:
        return {SOURCE: "east", STARTED: self.mirror.started}

    def _bring(self) -> None:
        clusters = {"group": "g", "source": {"id": "east", "namesrv": []}, "target": {"id": "west"}}
        if self.store.state.get(Kind.CLUSTERS, "") != clusters:
            self.store.put(Kind.CLUSTERS, "", clusters)
        if self.store.state.record(Kind.CONNECTOR, "route") is None:
            self.store.put(Kind.CONNECTOR, "route", connector("RUNNING"))

    @property
    def hears(self) -> bool:
        """Whether it hears at the target what others say there, and they hear it."""
        token = _process.set(self)
        try:
            return self.mirror.heard
        finally:
            _process.reset(token)

    @property
    def state(self) -> str:
        found = self.store.state.get(Kind.CONNECTOR, "route")
        return "" if found is None else found["state"]

    async def _turn(self) -> None:
        if (self.group.conflict or self.mirror.conflict) is not None:
            self.coordinator.running.clear()
            self.ended_by = str(self.group.conflict or self.mirror.conflict)
            self.kill()
            return
        runs = self.state == "RUNNING"
        tasks = self.world.tasks if runs else frozenset()
        settled = self.mirror.caught_up
        decision = self.coordinator.step(self.now(), tasks, wanted=lambda _: settled and runs)
        if decision.fence:
            self.coordinator.running.clear()
        if decision.publish is not None and not decision.fence:
            self.group.assign(decision.publish)
            await self.group.publish()
        self.coordinator.running.difference_update(decision.stop)
        if decision.start:
            self.coordinator.running |= decision.start
            self.world.started(self)
        if self.group.unsaid:
            await self._beat()


def connector(state: str) -> dict[str, Any]:
    return {"config": {}, "state": state, "origin": "rest", "epoch": 0}


class TwoClusters:
    """Two clusters, and workers that come and go; `violations` are what must never happen."""

    def __init__(self, seed: int, directory: Path, *, workers: int, tasks: int = 6) -> None:
        self.random = random.Random(seed)
        self.loop = asyncio.get_running_loop()
        self.directory = directory
        self.clusters: dict[Side, Cluster] = {
            "source": Cluster(self.random, "east", 2),
            "target": Cluster(self.random, "west", 2),
        }
        self.target = self.clusters["target"]
        self.tasks = frozenset(f"route/t{i:02}" for i in range(tasks))
        self.errors: list[BaseException | None] = []
        self.violations: list[str] = []
        #: When a stop was decided that nobody may start a task after; None: none was.
        self.stopped_at: float | None = None
        self.processes = {name: Process(self, name, "source") for name in (f"w{i}" for i in range(workers))}

    def restart(self, process: Process, *, wiped: bool = False, after: float = 0.0) -> None:
        """The same worker again, soon: with its disk, or without."""
        process.kill()

        def begin() -> None:
            if wiped:
                shutil.rmtree(self.directory / process.name, ignore_errors=True)
            self.processes[process.name] = Process(self, process.name, process.coordination)

        self.loop.call_later(after + 0.001, begin)

    def add(self, name: str, coordination: Side) -> None:
        self.processes[name] = Process(self, name, coordination)

    def started(self, process: Process) -> None:
        if self.stopped_at is not None:
            self.violations.append(f"{process.name} starts tasks after the stop of {self.stopped_at:.1f}")
        self.look()

    def look(self) -> None:
        for task in self.tasks:
            senders = [each.name for each in self.processes.values() if each.alive and each.sends(task)]
            if len(senders) > 1:
                self.violations.append(f"{task} is sent by {senders} at {self.loop.time():.3f}")

    @property
    def senders(self) -> int:
        """How many tasks are sent by somebody."""
        return sum(any(each.alive and each.sends(task) for each in self.processes.values()) for task in self.tasks)

    async def wait_for(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        for _ in itertools.takewhile(lambda at: at < seconds * 10, itertools.count()):
            self.look()
            if condition():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what}: not within {seconds:g} s")

    async def decide(self, name: str, state: str) -> bool:
        """An operator decides at a worker; whether the group, or the mirror, has it."""
        process = self.processes[name]
        published: asyncio.Future[bool] = self.loop.create_future()

        async def publish() -> None:
            process.store.put(Kind.CONNECTOR, "route", connector(state))
            done = await process.group.publish()
            if not done:
                done = await process.mirror.flush()
            published.set_result(done)

        process.spawn(publish())
        return await published

    def trouble(self) -> None:
        """Something happens to some worker."""
        chance, process = self.random.random(), self.random.choice([*self.processes.values()])
        if not process.alive:
            return
        if chance < 0.3:
            self.restart(process, wiped=self.random.random() < 0.3, after=self.random.uniform(0.1, 12))
        elif chance < 0.8:
            cluster = self.random.choice(["east", "west"])
            process.cut.add(cluster)
            self.loop.call_later(self.random.uniform(0.5, 15), process.cut.discard, cluster)
