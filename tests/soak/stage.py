"""Two clusters with proxies in front of their brokers, three workers, and load on the source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from replicator.exit_codes import ExitCode
from replicator.sandbox import Cluster, ClusterSpec
from replicator.settings.secret_file import write_secret
from tests.soak.accounts import ACCOUNTS, Accounts
from tests.soak.clock import Clock
from tests.soak.history import History
from tests.soak.load import GROUP, Load
from tests.soak.schedule import WORKERS, WORLDS, Plan
from tests.support.clusters import JAVA_FLAGS
from tests.support.guarded import access
from tests.support.offsets import make_group
from tests.support.proxy import BrokerProxies
from tests.support.replicas import knows
from tests.support.sockets import listening
from tests.support.traffic import create_topic
from tests.support.worker import SYNC_QUICKLY, Worker, until

__all__ = ["BRIEF", "QUEUES", "TOPICS", "SoakWorker", "Stage", "loaded", "staged"]

TOPICS: Final = ("soak-orders", "soak-payments", "soak-events")
#: The topic that is deleted and created again.
BRIEF: Final = "soak-brief"
QUEUES: Final = 3
#: Commit logs that are full after seconds, so that a broker needs room on its disk (tests/support/narrow.py). Not
#: with replicas: one that waits for the next file to come takes a whole core (ReputMessageService, 5.3.3).
_SMALL_FILES: Final = {"mappedFileSizeCommitLog": "1048576", "maxMessageSize": "262144"}
_FLAGS: Final = (
    *("--topics", "soak-.*", "--sync-groups", GROUP, "--protect-target"),
    *("--session-timeout", "5", "--heartbeat-interval", "1"),
    *("--settle-timeout", "15"),  # a paused broker stores what it was sent before when it goes on
)


class SoakWorker(Worker):
    """One whose disk may be too full for the line that says where it serves HTTP."""

    async def supervised(self) -> None:
        """Starts it again, as its supervisor would, where it came new to clusters that it could not reach."""
        if self.exit_code == ExitCode.UNUSABLE:
            await self.start(ready=False)

    def is_up(self) -> bool:
        if super().is_up():
            return True
        self.port = min(listening(self.pid), default=0)
        return bool(self.port and self.get("/health/live"))


class Stage:
    """What faults strike.

    `proxies` are by side and the number of the broker; none before brokers of 4.9, and between replicas. `clocks`
    are those of the workers; there are `accounts` where the brokers ask for them.
    """

    def __init__(self, clusters: Mapping[str, Cluster], directory: Path) -> None:
        self.clusters = clusters
        self.directory = directory
        self.workers: list[SoakWorker] = []
        self.clocks: list[Clock] = []
        self.proxies: dict[tuple[str, int], BrokerProxies] = {}
        self.accounts: Accounts | None = None
        #: By topic, how far its consumers are.
        self.consumed: dict[str, dict[tuple[str, int], int]] = {topic: {} for topic in TOPICS}
        #: By topic, those of the messages to come.
        self.numbers = {topic: count() for topic in (*TOPICS, BRIEF)}

    @property
    def source(self) -> Cluster:
        return self.clusters["source"]

    @property
    def target(self) -> Cluster:
        return self.clusters["target"]


@asynccontextmanager
async def staged(
    planned: Plan, directory: Path, history: History, program: tuple[str, ...]
) -> AsyncIterator[Stage]:
    """All of it running, without load, within the context; workers run as `program`."""
    async with AsyncExitStack() as stack:
        clusters = {
            side: Cluster(_spec(side, version, planned.world), directory=directory / side, java_flags=JAVA_FLAGS)
            for side, version in zip(("source", "target"), planned.versions, strict=True)
        }
        stage = Stage(clusters, directory)
        for side, cluster in clusters.items():
            stack.push_async_callback(cluster.close)
            await cluster.start()
            for number, broker in enumerate(cluster.brokers):
                if cluster.spec.broker_ip != "127.0.0.1":
                    proxies = BrokerProxies((cluster.spec.broker_ip, broker.port))
                    stage.proxies[side, number] = await stack.enter_async_context(proxies)
        for topic in (*TOPICS, BRIEF):
            await create_topic(stage.source, topic, queues=QUEUES)
        await make_group(stage.source, GROUP)
        if WORLDS[planned.world].acl:
            stage.accounts = await stack.enter_async_context(Accounts(stage.source, stage.target, history))
        _hire(stage, program, is_signed=WORLDS[planned.world].signed)
        for worker in stage.workers:
            stack.push_async_callback(worker.kill)
        await asyncio.gather(*(_started(worker) for worker in stage.workers))
        for cluster in clusters.values():
            for broker in cluster.brokers:
                if broker.slave is not None:  # it is told of topics by its master, every ten seconds
                    await until(partial(knows, broker.slave, {*TOPICS, BRIEF}), what="the slave knows the topics")
        yield stage


async def _started(worker: SoakWorker) -> None:
    """A broker that has just started may not answer it in time.

    A master of 5.x takes a whole core (`ReputMessageService`) until its replica has all that it has.
    """
    await worker.start(ready=False)

    async def up() -> bool:
        await worker.supervised()
        return worker.is_up()

    await until(up, seconds=180, what=f"{worker.store.parent.name} serves HTTP")


def _hire(stage: Stage, program: tuple[str, ...], *, is_signed: bool) -> None:
    """Makes the workers, which are not started yet."""
    sides = zip(("SOURCE", "TARGET"), (stage.source, stage.target), strict=True)
    environment = {name: value for side, cluster in sides for name, value in access(side, cluster).items()}
    flags = [*_FLAGS, *SYNC_QUICKLY]
    if is_signed:
        write_secret(stage.directory / "secret")
        flags += ["--worker-group-secret-file", str(stage.directory / "secret")]
    if stage.accounts is not None:
        flags[flags.index("--sync") + 1] += ",acl"
        flags += ["--sync-acl-interval", "0.5", "--sync-deletes", "--acl-accounts", f"{ACCOUNTS}.*"]
    for number in range(WORKERS):
        home = stage.directory / f"w{number}"
        clock = Clock(stage.directory / f"clock-{number}")
        stage.clocks.append(clock)
        stage.workers.append(
            SoakWorker(
                stage.source,
                stage.target,
                home,
                *("--worker-id", f"w{number}", *flags),
                environment={**environment, **clock.environment},
                group="soak",
                program=program,
            )
        )


def _spec(side: str, version: str, world: str) -> ClusterSpec:
    """Brokers of 4.9 listen on every address, and replicas reach each other without proxies."""
    of = WORLDS[world]
    plain = version.startswith("4.") or of.elected == side
    acl = ("1.0" if version.startswith("4.") else "2.0") if of.acl else "none"
    return ClusterSpec(
        name=side,
        version=version,
        brokers=of.brokers,
        acl=acl,
        ha="controller" if of.elected == side else "none",
        properties=of.properties if of.elected else {**_SMALL_FILES, **of.properties},
        broker_ip="127.0.0.1" if plain else "127.0.0.2" if side == "source" else "127.0.0.3",
    )


@asynccontextmanager
async def loaded(stage: Stage, history: History, seed: str) -> AsyncIterator[None]:
    """Producers of all topics and consumers of `TOPICS`, within the context."""
    loads = [
        Load(
            stage.source,
            topic,
            history,
            f"{seed}/{topic}",
            numbers=stage.numbers[topic],
            consumed=None if topic == BRIEF else stage.consumed[topic],
        )
        for topic in (*TOPICS, BRIEF)
    ]
    async with asyncio.TaskGroup() as group:
        for load in loads:
            group.create_task(load.run())
        try:
            yield
        finally:
            for load in loads:
                load.stop()
