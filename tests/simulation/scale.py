"""`python -m tests.simulation.scale --queues 100000 --workers 20`: a group of any size in one process.

Virtual time shows what waits for what, and real CPU time what a worker does. The topics are empty.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from replicator.routing.state import Phase
from tests.simulation import clocks
from tests.simulation.cluster import SimCluster
from tests.simulation.history_log import HistoryLog
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.workers import SimWorker

__all__ = ["TOPIC_QUEUES", "Scale", "ScaleWorld", "Took"]

TOPIC_QUEUES = 100
_LIMIT = 300.0
_IDLE = 20.0
_STEP = 0.5


class Took(NamedTuple):
    """Until all queues were copied: seconds of virtual time, events, and seconds of CPU of the whole simulation."""

    virtual: float
    events: int
    cpu: float


class Scale(NamedTuple):
    """What a group needs; `idle` is the CPU share of one worker, `control` is bytes a second of the group."""

    start: Took
    takeover: Took
    rebalance: Took
    idle: float
    control: float


class ScaleWorld:
    """`workers` workers of one group, and `queues` queues in topics of 100, from a broker to another."""

    def __init__(self, *, queues: int, workers: int, directory: Path) -> None:
        # All queues may do something at one moment, several times.
        self.kernel = Kernel(1, at_once=max(200_000, 100 * queues))
        self._cpu = time.process_time  # the true one
        network = Network(self.kernel)
        self._source, self._target = (
            SimCluster(self.kernel, network, name=name, version="5.3.3", brokers=1, net=net)
            for name, net in (("src", "10.1.0"), ("dst", "10.2.0"))
        )
        for broker in (*self._source.brokers, *self._target.brokers):
            broker.lag = 0.001
        for number in range(queues // TOPIC_QUEUES):
            self._source.brokers[0].make_topic(f"topic-{number:05d}", TOPIC_QUEUES)
        self._queues = queues
        self.workers = [self._worker(network, number, directory) for number in range(workers)]
        clocks.take_over(self.kernel)
        HistoryLog(self.kernel).capture()

    def _worker(self, network: Network, number: int, directory: Path) -> SimWorker:
        settings: dict[str, Any] = {
            "source": {"namesrv": [self._source.namesrv.address]},
            "target": {"namesrv": [self._target.namesrv.address]},
            "topics": ["topic-.*"],
            "sync": [],
        }
        name, address = f"w{number:02d}", f"10.3.0.{number + 1}"
        kernel = self.kernel
        return SimWorker(kernel, network, name=name, address=address, directory=directory / name, settings=settings)

    def play(self) -> Scale:
        """Starts all, lets them wait, kills one, and starts it again."""
        start = self._took(self._start)
        used, written = self._cpu(), self._source.brokers[0].store.size
        self.kernel.run(seconds=_IDLE)
        idle = (self._cpu() - used) / _IDLE / len(self.workers)
        control = (self._source.brokers[0].store.size - written) / _IDLE
        last = self.workers[-1]
        return Scale(start, self._took(last.kill), self._took(last.start), idle, control)

    def _start(self) -> None:
        for worker in self.workers:
            self.kernel.plan(self.kernel.random.uniform(0.0, 1.0), worker.start)

    def _took(self, event: Callable[[], object]) -> Took:
        began, events, used = self.kernel.now, self.kernel.events, self._cpu()
        event()
        while not self._all_copied():
            if self.kernel.now - began > _LIMIT:
                raise TimeoutError(f"{self.copied} of {self._queues} queues are copied after {_LIMIT:g} s")
            self.kernel.run(seconds=_STEP)
        return Took(self.kernel.now - began, self.kernel.events - events, self._cpu() - used)

    @property
    def copied(self) -> int:
        """Queues that are copied now, by all that live."""
        return sum(map(_copied, self.workers))

    def _all_copied(self) -> bool:
        return self.copied == self._queues and all(_copied(worker) for worker in self.workers if worker.up)


def _copied(worker: SimWorker) -> int:
    if not worker.up or worker.worker is None:
        return 0
    return sum(state.phase is Phase.RUNNING for route in worker.worker.routes for state in route.states)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.scale")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=20)
    asked = parser.parse_args()
    gc.disable()  # what the killed worker has left would be cleaned up
    directory = Path(tempfile.mkdtemp(prefix="scale-"))
    try:
        found = ScaleWorld(queues=asked.queues, workers=asked.workers, directory=directory).play()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    cells = [f"{asked.queues:,}", str(asked.workers)]
    for took in (found.start, found.takeover, found.rebalance):
        cells += [f"{took.virtual:.1f}", f"{took.cpu / asked.workers:.2f}"]
    cells += [f"{found.idle:.1%}", f"{found.control * 3600 / 1e6:,.0f}"]
    print("| queues | workers | start s | CPU s | takeover s | CPU s | rebalance s | CPU s | idle | records MB/h |")
    print("|" + " ---: |" * len(cells))
    print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
