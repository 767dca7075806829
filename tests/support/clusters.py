"""Real clusters for tests: each spec is started once per session and shared by all tests that ask for it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from replicator.sandbox import Cluster, ClusterSpec
from replicator.sandbox.node import Node

#: Clusters kept at once: enough for one of each version on both sides, and those with two brokers, accounts or TLS.
#: One takes some 250 MB.
_KEPT = 12

#: Tests start brokers often and load them little, so the first compiler will do.
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1",)


_POOL = pytest.StashKey["ClusterPool"]()


class ClusterPool:
    """Starts clusters on demand, keeps those used last by spec, and ends them all.

    A test may use up to that many at once. Those that it does not use are paused: a broker in which nothing
    happens takes up to a tenth of a core.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._clusters: dict[ClusterSpec, Cluster] = {}
        self._used: set[ClusterSpec] = set()
        self._paused: set[ClusterSpec] = set()
        self._locks: dict[ClusterSpec, asyncio.Lock] = {}
        self._made = 0

    async def get(self, spec: ClusterSpec) -> Cluster:
        """The running cluster of `spec`, for tests that leave its brokers as they are."""
        async with self._locks.setdefault(spec, asyncio.Lock()):
            cluster = self._clusters.pop(spec, None)
            if cluster is None:
                while len(self._clusters) >= _KEPT:
                    await self._clusters.pop(next(iter(self._clusters))).close()
                cluster = self._make(spec)
                await cluster.start()
            elif spec in self._paused:
                await _wake(cluster)
            self._paused.discard(spec)
            self._clusters[spec] = cluster  # the last one is the one used last
            self._used.add(spec)
            return cluster

    def rest(self) -> None:
        """Pauses the clusters that nobody asked for since the last call."""
        for spec in self._clusters.keys() - self._used - self._paused:
            for node in self._clusters[spec].nodes:
                node.pause()
            self._paused.add(spec)
        self._used.clear()

    @asynccontextmanager
    async def lent(self, spec: ClusterSpec) -> AsyncIterator[Cluster]:
        """The running cluster of `spec`, for a test that kills, pauses or reconfigures its brokers.

        After a test that fails nobody gets it again.
        """
        cluster = await self.get(spec)
        try:
            yield cluster
            for node in cluster.nodes:
                if not node.running:
                    await node.start()
        except BaseException:
            self._clusters.pop(spec, None)
            await cluster.close()
            raise

    async def pair(self, source: ClusterSpec, target: ClusterSpec) -> tuple[Cluster, Cluster]:
        """Two clusters, started side by side."""
        first, second = await asyncio.gather(self.get(source), self.get(target))
        return first, second

    def fresh(self, spec: ClusterSpec) -> Cluster:
        """A cluster of the caller's own, not started yet: `async with clusters.fresh(spec) as cluster`."""
        return self._make(spec)

    async def close(self) -> None:
        await asyncio.gather(*(cluster.close() for cluster in self._clusters.values()))
        self._clusters.clear()

    def _make(self, spec: ClusterSpec) -> Cluster:
        self._made += 1
        directory = self._directory / f"{self._made:02d}-{spec.name}-{spec.version}"
        return Cluster(spec, directory=directory, java_flags=JAVA_FLAGS)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clusters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ClusterPool]:
    """The session's clusters. Their files stay for reading when a test failed."""
    directory = tmp_path_factory.mktemp("clusters")
    pool = request.config.stash[_POOL] = ClusterPool(directory)
    yield pool
    del request.config.stash[_POOL]
    await pool.close()
    if request.session.testsfailed == 0:
        shutil.rmtree(directory, ignore_errors=True)


async def _wake(cluster: Cluster) -> None:
    """Resumes all of a paused cluster. To the name servers its brokers may have been silent for too long."""

    async def serving(node: Node) -> None:
        node.resume()
        await node.assist()
        while not await node.answers():
            await asyncio.sleep(0.05)
            await node.assist()

    await asyncio.gather(*map(serving, cluster.nameservers))
    await asyncio.gather(*(serving(node) for node in cluster.nodes if node not in cluster.nameservers))


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Clusters that this test has left alone rest."""
    if _POOL in item.config.stash:
        item.config.stash[_POOL].rest()


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the same clusters run in one process, one after the other, so that each cluster starts once.

    Those of one file do. Those with brokers or Spark come first: the quick ones fill what time is left.
    """

    def group(item: pytest.Item) -> str:
        marker = item.get_closest_marker("side_by_side")
        return marker.args[0] if marker else item.path.stem

    slow = [item for item in items if item.get_closest_marker("brokers") or item.get_closest_marker("spark")]
    others = set(items) - set(slow)
    rest = [item for item in items if item in others]
    for item in slow:
        item.add_marker(pytest.mark.xdist_group(group(item)))
    items[:] = [*sorted(slow, key=group), *rest]
