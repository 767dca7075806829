"""What docs/TWO_WAY.md says to type, typed: there and back, names that differ, several sources, several targets."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.client.peer import unused_port
from tests.support.clusters import ClusterPool
from tests.support.guide import Guide
from tests.support.terminal import Terminal
from tests.support.traffic import create_topic, has_perm, produce, read_topic
from tests.support.worker import until

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(600)]

PAGE = Path(__file__).parent.parent.parent / "docs" / "TWO_WAY.md"
EAST, WEST, HUB = (ClusterSpec(name=name, version="5.3.3") for name in ("east", "west", "hub"))


async def keys(cluster: Cluster, topic: str) -> list[str]:
    """Of all messages of the topic there."""
    return sorted(message.keys for message in await read_topic(cluster, topic))


async def has(cluster: Cluster, topic: str, *ranges: range) -> None:
    """Waits until a topic has just these messages, each once."""
    expected = sorted(f"k{number}" for numbers in ranges for number in numbers)

    async def is_so() -> bool:
        return await keys(cluster, topic) == expected

    await until(is_so, what=f"{len(expected)} messages of {topic} at {cluster.spec.name}")


class Routes:
    """The workers of one section, of which the first listens where commands ask by default."""

    def __init__(self, shell: Terminal, second: int) -> None:
        self.shell = shell
        self._second = second
        self._running: list[subprocess.Popen[bytes]] = []

    async def start(self, line: str) -> None:
        """Starts one, and waits until its queues run."""
        self._running.append(await asyncio.to_thread(self.shell.begin, line))
        port = self._second if "--rest-port" in line else self.shell.port
        ready = f"replicator connectors list --url http://127.0.0.1:{port}"
        await asyncio.to_thread(self.shell.until, ready, "STOPPED" if "stopped" in line else "RUNNING")

    async def end(self) -> None:
        """Stops all of them, as with Ctrl-C."""
        for process in self._running:
            process.send_signal(signal.SIGINT)
        codes = [await asyncio.to_thread(process.wait, 60) for process in self._running]
        assert codes == [0] * len(codes)


@asynccontextmanager
async def routes(shell: Terminal) -> AsyncIterator[Routes]:
    """Those of one section; they are stopped at its end."""
    made = Routes(shell, int(shell.names["8083"]))
    yield made
    await made.end()


async def at_both(topic: str, first: Cluster, second: Cluster) -> None:
    """A topic that two clusters have, with other messages in each: from k0 on, and from k500 on."""
    for cluster, start in ((first, 0), (second, 500)):
        await create_topic(cluster, topic, queues=2)
        await produce(cluster, topic, 20, start=start)


async def there_and_back(shell: Terminal, guide: Guide, east: Cluster, west: Cluster) -> None:
    """Each message comes to the other side once, and not home again."""
    await create_topic(east, "orders", queues=2)
    await produce(east, "orders", 50)
    async with routes(shell) as pair:
        await pair.start(guide.take("replicator --source EAST"))
        await has(west, "orders", range(50))
        await pair.start(guide.take("replicator --source WEST"))
        await produce(west, "orders", 30, start=1000)
        await has(east, "orders", range(50), range(1000, 1030))
        for command in (guide.take("replicator readiness"), guide.take("replicator readiness")):
            await asyncio.to_thread(shell.until, command, "ready to switch")
        shell.names |= {"TOPIC": "orders", "KEY": "k7"}
        await asyncio.to_thread(shell.until, guide.take("replicator where TOPIC"), r"west-a")
        await has(west, "orders", range(50), range(1000, 1030))


async def standby(shell: Terminal, guide: Guide, east: Cluster, west: Cluster) -> None:
    """The second route waits, stopped; what the first one copies is protected."""
    await create_topic(east, "orders", queues=2)
    await produce(east, "orders", 50)
    async with routes(shell) as pair:
        await pair.start(guide.take("replicator --source EAST"))
        await pair.start(guide.take("replicator --source WEST"))
        await has(west, "orders", range(50))
        await until(lambda: has_perm(west, "orders", 4), what="it is protected")
        assert await has_perm(east, "orders", 6)


async def names_that_differ(shell: Terminal, guide: Guide, east: Cluster, west: Cluster) -> None:
    """Each side has its own topic and one for what comes from the other."""
    await at_both("bills", east, west)
    async with routes(shell) as pair:
        await pair.start(guide.take("replicator --source EAST"))
        await pair.start(guide.take("replicator --source WEST"))
        await has(west, "east-bills", range(20))
        await has(east, "west-bills", range(500, 520))
        await has(east, "bills", range(20))


async def several_sources(shell: Terminal, guide: Guide, east: Cluster, north: Cluster, hub: Cluster) -> None:
    """The second one gets queues of its own."""
    await at_both("calls", east, north)
    async with routes(shell) as pair:
        await pair.start(guide.take("replicator --source EAST"))
        await has(hub, "calls", range(20))
        await pair.start(guide.take("replicator --source NORTH"))
        await has(hub, "calls", range(20), range(500, 520))


async def several_targets(shell: Terminal, guide: Guide, east: Cluster, west: Cluster, north: Cluster) -> None:
    """Each has all."""
    await create_topic(east, "deals", queues=2)
    await produce(east, "deals", 20)
    async with routes(shell) as pair:
        await pair.start(guide.take("replicator --source EAST"))
        await pair.start(guide.take("replicator --source EAST"))
        await has(west, "deals", range(20))
        await has(north, "deals", range(20))


async def test_two_ways(clusters: ClusterPool, tmp_path: Path) -> None:
    """Each section of the page on clusters of its own."""
    guide, second = Guide(PAGE), str(unused_port())

    def terminal(name: str, **clusters: Cluster) -> Terminal:
        names = {f"{word}:9876": cluster.namesrv for word, cluster in clusters.items()}
        return Terminal(tmp_path / name, names | {"8083": second})

    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west:
        with terminal("both", EAST=east, WEST=west) as shell:
            shell.names["8082"] = str(shell.port)
            await there_and_back(shell, guide, east, west)
    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west:
        with terminal("standby", EAST=east, WEST=west) as shell:
            await standby(shell, guide, east, west)
    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west:
        with terminal("named", EAST=east, WEST=west) as shell:
            await names_that_differ(shell, guide, east, west)
    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west, clusters.fresh(HUB) as hub:
        with terminal("sources", EAST=east, NORTH=west, HUB=hub) as shell:
            await several_sources(shell, guide, east, west, hub)
        with terminal("targets", EAST=east, WEST=west, NORTH=hub) as shell:
            await several_targets(shell, guide, east, west, hub)
    assert guide.left == []
