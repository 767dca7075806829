"""The clusters of a benchmark: a source and a target, one of them possibly far away."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.broker import Broker
from bench.contender import QUEUES, Job
from bench.files import made
from replicator.sandbox import Cluster, ClusterSpec

VERSION = "5.3.3"
FAR = "127.0.0.2"
NEAR = "127.0.0.1"

_PROPERTIES = {
    # The machine is loaded on purpose: brokers must not answer "busy" after the default of 200 ms.
    "waitTimeMillsInSendQueue": "10000",
    # With the sandbox's small files brokers would spend their time on creating new ones.
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": "6000000",
    "maxIndexNum": "20000000",
    "maxHashSlotNum": "5000000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Round trips to the two clusters, in milliseconds; `fronted`: something is to stand before their brokers."""

    name: str
    title: str
    source_ms: float = 0.0
    target_ms: float = 0.0
    fronted: bool = False


SCENARIOS = {
    "loopback": Scenario(name="loopback", title="Both clusters near"),
    "source50": Scenario(name="source50", title="50 ms round trip to the source", source_ms=50),
    "target50": Scenario(name="target50", title="50 ms round trip to the target", target_ms=50),
}


class Side:
    """One cluster of one broker. `broker` reaches it directly, past any delay."""

    def __init__(self, cluster: Cluster, *, round_trip_ms: float) -> None:
        self.namesrv = cluster.namesrv
        self.round_trip_ms = round_trip_ms
        self._port = cluster.brokers[0].port
        self.broker = Broker(f"{NEAR}:{self._port}")

    @property
    def fronts(self) -> list[tuple[str, str]]:
        """Its registered address and where it listens, of its listen port and its VIP port."""
        return [(f"{FAR}:{port}", f"{NEAR}:{port}") for port in (self._port, self._port - 2)]

    @asynccontextmanager
    async def reachable(self, *, delayed: bool) -> AsyncIterator[None]:
        """Makes its registered address reachable, with the delay or, for preparations, without."""
        if not self.round_trip_ms:
            yield
            return
        command = [sys.executable, "-m", "bench.wire"]
        command += ["--delay-ms", str(self.round_trip_ms / 2 if delayed else 0)]
        for listen, upstream in self.fronts:
            command += ["--listen", listen, "--upstream", upstream]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent, env=dict(os.environ)
        )
        try:
            assert process.stdout is not None
            if await process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"the wire before port {self._port} did not start")
            yield
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


class Stage:
    """Both clusters, running."""

    def __init__(self, source: Side, target: Side) -> None:
        self.source = source
        self.target = target

    def job(
        self, topic: str, target_topic: str, *, messages: int, size: int, directory: Path, queues: int = QUEUES
    ) -> Job:
        """A job that copies `topic` from source to target; creates the directory."""
        return Job(
            source=self.source.namesrv,
            target=self.target.namesrv,
            topic=topic,
            target_topic=target_topic,
            messages=messages,
            size=size,
            queues=queues,
            brokers=(self.source.broker.address, self.target.broker.address),
            directory=made(directory),
        )

    @asynccontextmanager
    async def reachable(self, *, delayed: bool) -> AsyncIterator[None]:
        async with self.source.reachable(delayed=delayed), self.target.reachable(delayed=delayed):
            yield


@asynccontextmanager
async def staged(
    scenario: Scenario, *, directory: Path, source: Mapping[str, str] | None = None
) -> AsyncIterator[Stage]:
    """New clusters, ended afterwards. `source`: extra properties of the source's broker."""
    async with AsyncExitStack() as stack:
        sides = []
        for name, delay, own in (
            ("source", scenario.source_ms, dict(source or {})),
            ("target", scenario.target_ms, {}),
        ):
            ip = FAR if delay or scenario.fronted else NEAR
            spec = ClusterSpec(name=name, version=VERSION, broker_ip=ip, properties=_PROPERTIES | own)
            cluster = Cluster(spec, directory=directory / name)
            await stack.enter_async_context(cluster)
            side = Side(cluster, round_trip_ms=delay)
            stack.push_async_callback(side.broker.close)
            sides.append(side)
        yield Stage(*sides)
