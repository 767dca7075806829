"""The lease of Spark's tasks, on a real broker: it follows one process's heartbeats, while they name the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from replicator.client.cluster import Cluster as Client
from replicator.errors import Unreachable
from replicator.group.freshness import Echo
from replicator.group.job_lease import JOBS, JobLease
from replicator.group.membership import Heartbeat
from replicator.group.signature import Signer
from replicator.group.wire import write_heartbeat
from tests.support.clusters import ClusterPool
from tests.support.group import EAST
from tests.support.traffic import connected, create_topic, send
from tests.support.worker import until

SECONDS = 1.5


class Beats:
    """Writes heartbeats to `topic`, as the worker w0 does."""

    def __init__(self, client: Client, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.sequence = 0
        self.signer = Signer()
        self.echo: Echo | None = None

    async def write(self, jobs: Sequence[str], *, worker: str = "w0", incarnation: str = "first") -> None:
        self.sequence += 1
        beat = Heartbeat(
            worker=worker,
            incarnation=incarnation,
            sequence=self.sequence,
            info={JOBS: list(jobs)},
            echo=self.echo,
        )
        body = self.signer.sign(self.topic, "g", write_heartbeat("g", beat))
        await send(self.client, "east-a", self.topic, 0, [(body, {})])

    @asynccontextmanager
    async def beating(self, *jobs: str, **of: str) -> AsyncIterator[None]:
        """Again and again meanwhile: who begins to read sees only what comes then."""

        async def again() -> None:
            while True:
                await self.write(jobs, **of)
                await asyncio.sleep(0.2)

        running = asyncio.create_task(again())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])

    def lease(self, *, patience: float = 20.0, signer: Signer | None = None) -> JobLease:
        return JobLease(
            group="g",
            worker="w0",
            incarnation="first",
            job="job",
            topic=self.topic,
            seconds=SECONDS,
            patience=patience,
            signer=signer or Signer(),
        )


@pytest.fixture
async def beats(clusters: ClusterPool, topic_name: Callable[[str], str]) -> AsyncIterator[Beats]:
    source = await clusters.get(EAST)
    topic = topic_name("beats")
    await create_topic(source, topic, queues=1)
    async with connected(source) as client:
        yield Beats(client, topic)


async def test_it_lasts_while_heartbeats_name_the_job(beats: Beats) -> None:
    """It ends when one does not, begins again with the next that does, and ends when none comes any more."""
    async with AsyncExitStack() as stack:
        async with beats.beating("other", "job"):
            holds = await stack.enter_async_context(beats.lease().held(beats.client))
            assert holds()
        await beats.write(["other"])
        await until(lambda: not holds(), seconds=SECONDS / 2, what="it ends, long before it runs out")
        await beats.write(["job"])
        await until(holds, what="it begins again")
        begun = time.monotonic()
        await until(lambda: not holds(), what="it runs out")
        assert time.monotonic() - begun < SECONDS + 0.5


@pytest.mark.parametrize("other", [{"worker": "w1"}, {"incarnation": "second"}])
async def test_others_cannot_give_it(beats: Beats, other: dict[str, str]) -> None:
    """Another worker, or the same one after a restart: that has jobs of its own."""
    async with beats.beating("job", **other):
        with pytest.raises(Unreachable, match="its queues have another owner by now"):
            async with beats.lease(patience=2.0).held(beats.client):
                pytest.fail("it was given")


@pytest.mark.parametrize("how", ["unsigned", "wrongly signed", "recorded"])
async def test_nobody_but_the_worker_gives_it_now(beats: Beats, how: str) -> None:
    """Heartbeats without its secret do not count, nor those that it wrote before its last one came back."""
    secret = Signer("s" * 32)
    beats.signer = {"unsigned": Signer(), "wrongly signed": Signer("x" * 32), "recorded": secret}[how]
    if how == "recorded":
        beats.echo = Echo("east-a", int(time.time() * 1000) - 60_000)
    async with beats.beating("job"):
        with pytest.raises(Unreachable, match="its queues have another owner by now"):
            async with beats.lease(patience=2.0, signer=secret).held(beats.client):
                pytest.fail("it was given")
    beats.signer, beats.echo = secret, None
    async with beats.beating("job"), beats.lease(signer=secret).held(beats.client) as holds:
        assert holds()
