"""Makes the faults of a plan, and heals each when its time is over."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import resource
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Final

from replicator.client.topics import read_topics, write_topic
from replicator.errors import ReplicatorError, SandboxError
from replicator.sandbox.node import Node
from tests.soak.brief import deleted, recreated
from tests.soak.history import History
from tests.soak.schedule import KINDS, WORKERS, Fault, Plan
from tests.soak.stage import TOPICS, SoakWorker, Stage
from tests.support.older_store import OlderStore
from tests.support.replicas import Replicas
from tests.support.swapped import swap
from tests.support.traffic import connected
from tests.support.worker import Worker

__all__ = ["Nemesis"]

#: Seconds of traffic between the copy of a store and its return.
_OLDER: Final = 4.0
#: Bytes of the largest file, where a commit log has no room: half of one.
_NO_COMMIT_LOG: Final = 2**19
#: Hundredths of a second within which the runtime of a process that was started begins.
_BEGINS: Final = 1000
#: Bytes a second of a narrow link, least and most.
_NARROW: Final = (20_000, 200_000)


class Nemesis:
    """Strikes `stage` as planned. What is struck already is left out, and the history says so."""

    def __init__(self, stage: Stage, history: History) -> None:
        self._stage = stage
        self._history = history
        self._struck: set[object] = set()
        self._stores = 0

    async def run(self, plan: Plan) -> None:
        """Returns when all is healed; the exception of a fault that could not be made or healed is raised."""
        async with asyncio.TaskGroup() as group:
            begun = asyncio.get_running_loop().time()
            for fault in plan.faults:
                await asyncio.sleep(max(0.0, begun + fault.at - asyncio.get_running_loop().time()))
                group.create_task(self._make(fault), name=str(fault))

    async def _make(self, fault: Fault) -> None:
        subjects = self._subjects(fault)
        if self._struck & subjects:
            self._history.add("left out", fault=str(fault))
            return
        self._struck |= subjects
        self._history.add("fault", fault=str(fault))
        try:
            async with _HOW[fault.kind](self, fault):
                await asyncio.sleep(fault.seconds)
            self._history.add("healed", fault=str(fault))
        finally:
            self._struck -= subjects

    def _subjects(self, fault: Fault) -> set[object]:
        """What may not be struck by two faults at once."""
        what = KINDS[fault.kind][0]
        if what in ("worker", "account"):
            return {(what, fault.number)}
        if what in ("broker", "target broker"):
            return {(fault.side, fault.number)}
        if what == "target":
            return {(fault.side, number) for number in range(len(self._stage.target.brokers))} | {"links target"}
        if fault.kind == "isolated":
            return {f"links {fault.side}", ("worker", _isolates(fault))}
        return {f"{what}s {fault.side}" if what in ("link", "cluster") else what}

    async def _worker(self, fault: Fault) -> SoakWorker:
        worker = self._stage.workers[fault.number]
        await worker.supervised()
        return worker

    def _node(self, fault: Fault) -> Node:
        cluster = self._stage.clusters[fault.side]
        return cluster.nameserver if fault.kind.startswith("nameserver") else cluster.brokers[fault.number]

    @asynccontextmanager
    async def _ended(self, fault: Fault) -> AsyncIterator[None]:
        """A worker that is killed, with its disk wiped or not, or stopped; it starts again."""
        worker = await self._worker(fault)
        if fault.kind == "stop":
            code = await worker.drain()
            # One that has only just been started has nothing to drain yet: it ends by the signal.
            assert code in (0, -signal.SIGTERM), f"worker {fault.number} ended with {code}"
        else:
            await worker.kill()
        if fault.kind == "wipe":
            await asyncio.to_thread(shutil.rmtree, worker.store, ignore_errors=True)
        yield
        await worker.start(ready=False)

    @asynccontextmanager
    async def _paused(self, fault: Fault) -> AsyncIterator[None]:
        worker = await self._worker(fault)
        worker.signal(signal.SIGSTOP)
        yield
        worker.signal(signal.SIGCONT)

    @asynccontextmanager
    async def _clock(self, fault: Fault) -> AsyncIterator[None]:
        """Up to an hour earlier or later, and back."""
        clock = self._stage.clocks[fault.number]
        clock.set(random.Random(fault.seconds).uniform(-3600, 3600))
        yield
        clock.set(0)

    @asynccontextmanager
    async def _disk_full(self, fault: Fault) -> AsyncIterator[None]:
        """No file of a worker takes a byte, its log neither."""
        pid = (await self._worker(fault)).pid
        await _has_begun(pid)
        with _files_up_to(0, pid):
            yield

    @asynccontextmanager
    async def _master_ended(self, fault: Fault) -> AsyncIterator[None]:
        """The replica that is the master now, so that the other one is elected where it is in sync."""
        replicas = Replicas(self._stage.clusters[fault.side])
        master = await replicas.master()
        if master is not None:
            await master.kill()
        yield
        if master is not None:
            await master.start()

    @asynccontextmanager
    async def _account(self, fault: Fault) -> AsyncIterator[None]:
        assert self._stage.accounts is not None
        await self._stage.accounts.change(fault.number, random.Random(fault.at).random())
        yield

    @asynccontextmanager
    async def _node_ended(self, fault: Fault) -> AsyncIterator[None]:
        node = self._node(fault)
        await (node.stop() if fault.kind.endswith("stop") else node.kill())
        yield
        await node.start()

    @asynccontextmanager
    async def _node_paused(self, fault: Fault) -> AsyncIterator[None]:
        node = self._node(fault)
        node.pause()
        yield
        node.resume()

    @asynccontextmanager
    async def _node_disk_full(self, fault: Fault) -> AsyncIterator[None]:
        """A broker can make no more commit logs (as in tests/e2e/test_faults.py)."""
        with _files_up_to(_NO_COMMIT_LOG, self._node(fault).pid):
            yield

    @asynccontextmanager
    async def _older_store(self, fault: Fault) -> AsyncIterator[None]:
        self._stores += 1
        place = self._stage.directory / f"older-store-{self._stores}"
        store = OlderStore(self._stage.target, place, number=fault.number)
        await store.save()
        await asyncio.sleep(_OLDER)
        await store.restore()
        await asyncio.to_thread(shutil.rmtree, place)
        yield

    @asynccontextmanager
    async def _swapped(self, fault: Fault) -> AsyncIterator[None]:
        await swap(self._stage.target)
        yield

    @asynccontextmanager
    async def _link(self, fault: Fault) -> AsyncIterator[None]:
        both = self._stage.proxies[fault.side, fault.number].both
        chance = random.Random(fault.seconds)
        up = chance.random() < 0.5
        for proxy in both:
            if fault.kind == "delay":
                proxy.delay = chance.uniform(0.02, 0.3)
            elif fault.kind == "reset":
                proxy.reset()
            elif fault.kind == "refuse":
                proxy.refuse()
                proxy.reset()
            elif fault.kind == "narrow":
                proxy.line_up.rate = proxy.line_down.rate = chance.uniform(*_NARROW)
            elif fault.kind == "partition":
                proxy.stall()
            else:
                proxy.stall(up=up, down=not up)
        yield
        for proxy in both:
            proxy.delay = proxy.line_up.rate = proxy.line_down.rate = 0.0
            proxy.accept()
            proxy.resume()

    @asynccontextmanager
    async def _isolated(self, fault: Fault) -> AsyncIterator[None]:
        """One worker reaches no broker of a side, which all others do."""
        worker = self._stage.workers[_isolates(fault)]
        await worker.supervised()
        proxies = [
            proxy for (side, _), both in self._stage.proxies.items() if side == fault.side for proxy in both.both
        ]
        for proxy in proxies:
            proxy.cut(worker.pid)
        yield
        for proxy in proxies:
            proxy.restore()

    @asynccontextmanager
    async def _topic_recreated(self, fault: Fault) -> AsyncIterator[None]:
        await deleted(self._stage)
        yield
        await recreated(self._stage)

    @asynccontextmanager
    async def _queues_grow(self, fault: Fault) -> AsyncIterator[None]:
        topic = TOPICS[fault.number]
        with contextlib.suppress(ReplicatorError, OSError):  # a broker that is away has fewer then
            async with connected(self._stage.source) as client:
                for broker in client.brokers():
                    config = (await read_topics(client.master(broker))).topics[topic]
                    more = config.queues + 1
                    grown = replace(config, read_queues=more, write_queues=more)
                    await write_topic(client.writer(broker), grown)
        yield

    @asynccontextmanager
    async def _route(self, fault: Fault) -> AsyncIterator[None]:
        """What an operator changes over REST, at any worker that answers, and takes back."""
        rates = {"rate_messages": 200, "rate_bytes": 0}
        there, back = {
            "pause-route": (_asks("PUT", "pause"), _asks("PUT", "resume")),
            "stop-route": (_asks("PUT", "stop"), _asks("PUT", "resume")),
            "restart-route": (_asks("POST", "restart", {}), None),
            "rates": (_asks("PUT", "rates", rates), _asks("PUT", "rates", {**rates, "rate_messages": 0})),
            "granularity": (_changes({"task_granularity": "queue"}), _changes({"task_granularity": "topic"})),
        }[fault.kind]
        await self._ask(there)
        yield
        if back is not None:
            await self._ask(back, until_done=True)

    async def _ask(self, request: Callable[[Worker], int], *, until_done: bool = False) -> None:
        """`request` returns an HTTP status.

        Raises:
            ValueError: a worker calls the request invalid.
        """
        while True:
            for worker in self._stage.workers:
                status = 0
                with contextlib.suppress(OSError, HTTPException, ValueError, AssertionError):
                    if worker.port or await asyncio.to_thread(worker.is_up):
                        status = await asyncio.to_thread(request, worker)
                if status == HTTPStatus.BAD_REQUEST:
                    raise ValueError(f"{worker.store.parent.name} does not take it")
                if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                    return
            if not until_done:
                return
            await asyncio.sleep(0.5)

    async def heal(self) -> None:
        """Everything runs and passes again, whatever was left: before what must hold is looked at."""
        for worker in self._stage.workers:
            await worker.supervised()
            await worker.served()
        for cluster in self._stage.clusters.values():
            for node in cluster.nodes:
                if not node.running:
                    raise SandboxError(f"{node.name} does not run any more: {node.home}")


def _isolates(fault: Fault) -> int:
    """The worker that an isolation strikes."""
    return random.Random(fault.seconds).randrange(WORKERS)


def _asks(method: str, what: str, body: object = None) -> Callable[[Worker], int]:
    return lambda worker: worker.ask(method, f"/connectors/route/{what}", body)[0]


def _changes(settings: Mapping[str, object]) -> Callable[[Worker], int]:
    """The route's configuration, but for these settings as it is."""

    def request(worker: Worker) -> int:
        status, now = worker.ask("GET", "/connectors/route/config")
        if status != HTTPStatus.OK:
            return status
        return worker.ask("PUT", "/connectors/route", {**now, **settings})[0]

    return request


async def _has_begun(pid: int) -> None:
    """Waits until a process that was just started survives a full disk, or has ended."""
    for _ in range(_BEGINS):
        if _ignores_full_disks(pid):
            return
        await asyncio.sleep(0.01)


def _ignores_full_disks(pid: int) -> bool:
    """Whether a process ignores or handles SIGXFSZ, as Python and Java do; so is one that has ended."""
    with contextlib.suppress(OSError):  # it has ended
        masks = re.findall(r"^Sig(?:Ign|Cgt):\t([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return any(int(mask, 16) >> (signal.SIGXFSZ - 1) & 1 for mask in masks)
    return True


@contextlib.contextmanager
def _files_up_to(size: int, pid: int) -> Iterator[None]:
    """No file of a process grows beyond `size` bytes."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))
    yield
    with contextlib.suppress(ProcessLookupError):  # one that has ended is found when all must serve again
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


_HOW: Final[Mapping[str, Callable[[Nemesis, Fault], AbstractAsyncContextManager[None]]]] = {
    **dict.fromkeys(("kill", "wipe", "stop"), Nemesis._ended),
    "pause": Nemesis._paused,
    "clock": Nemesis._clock,
    "disk-full": Nemesis._disk_full,
    "elect": Nemesis._master_ended,
    "account": Nemesis._account,
    **dict.fromkeys(("broker-kill", "broker-stop", "nameserver-kill"), Nemesis._node_ended),
    **dict.fromkeys(("broker-pause", "nameserver-pause"), Nemesis._node_paused),
    "broker-disk-full": Nemesis._node_disk_full,
    "older-store": Nemesis._older_store,
    "swap-addresses": Nemesis._swapped,
    **dict.fromkeys(("delay", "reset", "refuse", "one-way", "partition", "narrow"), Nemesis._link),
    "isolated": Nemesis._isolated,
    "topic-recreated": Nemesis._topic_recreated,
    "queues-grow": Nemesis._queues_grow,
    **dict.fromkeys(("pause-route", "restart-route", "stop-route", "rates", "granularity"), Nemesis._route),
}
