"""What most tests of a route begin with: two clusters, a topic on the source, a place for state files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.traffic import Producer, create_topic, judge, produce, raw_topic
from tests.support.worker import Worker, until

__all__ = ["SOURCE", "TARGET", "Scene", "SceneOf", "scene"]

SOURCE = ClusterSpec(name="east", version="5.3.3")
TARGET = ClusterSpec(name="west", version="5.3.3")


class Scene:
    """Both clusters, and `topic`, made on the source."""

    def __init__(self, source: Cluster, target: Cluster, topic: str, directory: Path) -> None:
        self.source = source
        self.target = target
        self.topic = topic
        self._directory = directory

    def worker(self, *flags: str, at: str = "worker", environment: Mapping[str, str] | None = None) -> Worker:
        """A replicator of the topic; those with the same `at` have the same state files."""
        directory = self._directory / at
        return Worker(self.source, self.target, directory, "--topics", self.topic, *flags, environment=environment)

    def producer(self, *, per_second: int = 2000) -> Producer:
        """Load on the source, within its context."""
        return Producer(self.source, self.topic, per_second=per_second)

    async def produce(self, count: int, *, start: int = 0, size: int = 100) -> None:
        """Messages to the source."""
        await produce(self.source, self.topic, count, start=start, size=size)

    async def assert_clean(self, copies: int | None = None) -> None:
        """Every message once, in order, unchanged, and nothing else; as many as said."""
        verdict = await judge(self.source, self.target, self.topic)
        assert verdict.clean, verdict.report()
        assert copies is None or verdict.copies == copies

    async def assert_clean_soon(self, copies: int) -> None:
        """As `assert_clean`, once so many messages are at the target."""

        async def arrived() -> bool:
            return sum(map(len, (await raw_topic(self.target, self.topic)).values())) >= copies

        await until(arrived, what=f"{copies} copies")
        await self.assert_clean(copies)


class SceneOf(Protocol):
    """Makes a scene.

    `mistreated` are those of the two that the test kills, pauses or reconfigures; a `Cluster` is one that it
    has started itself.
    """

    def __call__(
        self,
        *,
        source: ClusterSpec | Cluster = SOURCE,
        target: ClusterSpec | Cluster = TARGET,
        mistreated: tuple[ClusterSpec, ...] = (),
        queues: int = 4,
        **topic: object,
    ) -> AbstractAsyncContextManager[Scene]: ...


@pytest.fixture
def scene(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> SceneOf:
    """`async with scene(…) as route:`."""

    @asynccontextmanager
    async def make(
        *,
        source: ClusterSpec | Cluster = SOURCE,
        target: ClusterSpec | Cluster = TARGET,
        mistreated: tuple[ClusterSpec, ...] = (),
        queues: int = 4,
        **topic: object,
    ) -> AsyncIterator[Scene]:
        async with AsyncExitStack() as stack:

            async def found(wanted: ClusterSpec | Cluster) -> Cluster:
                if isinstance(wanted, Cluster):
                    return wanted
                if wanted in mistreated:
                    return await stack.enter_async_context(clusters.lent(wanted))
                return await clusters.get(wanted)

            made = Scene(await found(source), await found(target), topic_name("t"), tmp_path)
            await create_topic(made.source, made.topic, queues=queues, **topic)
            yield made

    return make
