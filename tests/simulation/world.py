"""One simulated world: two clusters, workers between them, producers; made and run by a seed alone."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from tests.simulation.broker import Broker
from tests.simulation.cluster import SimCluster
from tests.simulation.history_log import HistoryLog
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.store import NewMessage
from tests.simulation.workers import SimWorker

__all__ = ["TOPIC", "SimWorld"]

TOPIC = "orders"
_VERSIONS = ("4.9.7", "5.3.3", "5.5.0")


class SimWorld:
    """What `seed` makes; the disks of workers are in `directory`."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.seed = seed
        self.kernel = Kernel(seed)
        self.history = HistoryLog(self.kernel)
        self.network = Network(self.kernel)
        chance = self.kernel.random
        self.source = self._cluster("src", "10.1.0", chance.choice((1, 1, 2)))
        self.target = self._cluster("dst", "10.2.0", chance.choice((1, 1, 2)))
        for broker in self.source.brokers:
            broker.make_topic(TOPIC, chance.choice((1, 2, 3)))
        self.workers = [self._worker(number, directory) for number in range(chance.choice((1, 2, 2)))]
        self.producing = True
        self.numbers = itertools.count()
        self.produced = 0

    def _cluster(self, name: str, net: str, brokers: int) -> SimCluster:
        version = self.kernel.random.choice(_VERSIONS)
        return SimCluster(self.kernel, self.network, name=name, version=version, brokers=brokers, net=net)

    def _worker(self, number: int, directory: Path) -> SimWorker:
        settings: dict[str, Any] = {
            "source": {"namesrv": [self.source.namesrv.address]},
            "target": {"namesrv": [self.target.namesrv.address]},
            "topics": [TOPIC],
            "task_granularity": "queue",
            "sync": [],
        }
        return SimWorker(
            self.kernel,
            self.network,
            name=f"w{number}",
            address=f"10.3.0.{number + 1}",
            directory=directory / f"w{number}",
            settings=settings,
        )

    def start(self) -> None:
        for worker in self.workers:
            self.kernel.plan(self.kernel.random.uniform(0.0, 2.0), worker.start)
        self._produce()

    def _produce(self) -> None:
        chance = self.kernel.random
        if self.producing:
            broker = chance.choice(self.source.brokers)
            if broker.process.alive and not broker.process.paused:
                queues = broker.store.topics[TOPIC].write_queues
                self.produce(broker, chance.randrange(queues), chance.choice((1, 1, 2, 5, 40)))
        self.kernel.plan(chance.uniform(0.0, 0.2), self._produce)

    def produce(self, broker: Broker, queue_id: int, count: int) -> None:
        """Somebody sends messages to the source, and it acknowledges them."""
        now, first = broker.clock(), -1
        for _ in range(count):
            number = next(self.numbers)
            told = f"KEYS\x01k{number}\x02TAGS\x01t{number % 3}\x02"
            message = NewMessage(f"{number:08d}".encode(), told.encode(), flag=number % 5, born=now)
            offset = broker.store.append(TOPIC, queue_id, message, at=now, host=broker.address)
            first = offset if first < 0 else first
        self.produced += count
        broker.stored(TOPIC, queue_id, first, count)
