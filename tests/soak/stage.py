"""Two clusters with proxies in front of their brokers, three workers, and load on the source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from replicator.sandbox import Cluster, ClusterSpec
from tests.soak.history import History
from tests.soak.load import GROUP, Load
from tests.soak.schedule import BROKERS, WORKERS
from tests.support.clusters import JAVA_FLAGS
from tests.support.offsets import make_group
from tests.support.proxy import BrokerProxies
from tests.support.traffic import create_topic
from tests.support.worker import SYNC_QUICKLY, Worker

__all__ = ["TOPICS", "Stage", "loaded", "staged"]

TOPICS: Final = ("soak-orders", "soak-payments", "soak-events")
_QUEUES: Final = 3
_FLAGS: Final = (
    *("--topics", "soak-.*", "--sync-groups", GROUP, *SYNC_QUICKLY),
    *("--session-timeout", "5", "--heartbeat-interval", "1"),
    *("--settle-timeout", "15"),  # a paused broker stores what it was sent before when it goes on
)


class Stage:
    """What faults strike. `proxies` are by side and the number of the broker; none before brokers of 4.9."""

    def __init__(self, clusters: Mapping[str, Cluster], workers: list[Worker], directory: Path) -> None:
        self.clusters = clusters
        self.workers = workers
        self.directory = directory
        self.proxies: dict[tuple[str, int], BrokerProxies] = {}

    @property
    def source(self) -> Cluster:
        return self.clusters["source"]

    @property
    def target(self) -> Cluster:
        return self.clusters["target"]


@asynccontextmanager
async def staged(versions: tuple[str, str], directory: Path) -> AsyncIterator[Stage]:
    """All of it running, without load, within the context."""
    async with AsyncExitStack() as stack:
        clusters = {
            side: Cluster(_spec(side, version), directory=directory / side, java_flags=JAVA_FLAGS)
            for side, version in zip(("source", "target"), versions, strict=True)
        }
        stage = Stage(clusters, [], directory)
        for side, cluster in clusters.items():
            stack.push_async_callback(cluster.close)
            await cluster.start()
            for number, broker in enumerate(cluster.brokers):
                if cluster.spec.broker_ip != "127.0.0.1":
                    proxies = BrokerProxies((cluster.spec.broker_ip, broker.port))
                    stage.proxies[side, number] = await stack.enter_async_context(proxies)
        for topic in TOPICS:
            await create_topic(stage.source, topic, queues=_QUEUES)
        await make_group(stage.source, GROUP)
        for number in range(WORKERS):
            flags = ("--worker-id", f"w{number}", *_FLAGS)
            worker = Worker(stage.source, stage.target, directory / f"w{number}", *flags, group="soak")
            stack.push_async_callback(worker.kill)
            stage.workers.append(worker)
        await asyncio.gather(*(worker.start() for worker in stage.workers))
        yield stage


def _spec(side: str, version: str) -> ClusterSpec:
    ip = "127.0.0.1" if version.startswith("4.") else "127.0.0.2" if side == "source" else "127.0.0.3"
    return ClusterSpec(name=side, version=version, brokers=BROKERS, broker_ip=ip)


@asynccontextmanager
async def loaded(stage: Stage, history: History, seed: str) -> AsyncIterator[None]:
    """Producers and consumers of all topics, within the context."""
    loads = [Load(stage.source, topic, history, f"{seed}/{topic}") for topic in TOPICS]
    async with asyncio.TaskGroup() as group:
        for load in loads:
            group.create_task(load.run())
        try:
            yield
        finally:
            for load in loads:
                load.stop()
