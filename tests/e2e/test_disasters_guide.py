"""What docs/DISASTERS.md says to type, typed: there and back, brokers that are gone for good, a dead site."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
import urllib.request
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.client.peer import unused_port
from tests.support.clusters import ClusterPool
from tests.support.guide import Guide
from tests.support.terminal import Terminal
from tests.support.traffic import create_topic, produce, read_topic, topics_of
from tests.support.worker import until

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(600)]

PAGE = Path(__file__).parent.parent.parent / "docs" / "DISASTERS.md"
EAST = ClusterSpec(name="east", version="5.3.3", brokers=2)
WEST = ClusterSpec(name="west", version="5.5.0", brokers=2)


#: What the way back asks of the first group: the same ids, swapped. In the sandbox these are the clusters' names.
FIRST = "replicator --source EAST:9876 --target WEST:9876 --source-id east --target-id west --protect-target"


async def keys(cluster: Cluster) -> list[str]:
    """Of all messages of the topic there."""
    return sorted(message.keys for message in await read_topic(cluster, "orders"))


async def has_all_of(target: Cluster, source: Cluster) -> None:
    """Waits until it has each message of the other one."""

    async def has() -> bool:
        return set(await keys(source)) <= set(await keys(target))

    await until(has, what=f"all messages of {source.spec.name}")
    there = await keys(target)
    assert len(there) == len(set(there))


async def test_there_and_back_and_without_brokers_and_sites(clusters: ClusterPool, tmp_path: Path) -> None:
    """Each scene begins with what the one before has left of the clusters."""
    guide = Guide(PAGE)
    async with clusters.fresh(EAST) as east, clusters.fresh(WEST) as west:
        await create_topic(east, "orders", queues=2)
        await produce(east, "orders", 200)
        names = {"EAST:9876": east.namesrv, "WEST:9876": west.namesrv, "8083": str(unused_port())}
        with Terminal(tmp_path, names) as shell:
            first = await asyncio.to_thread(shell.begin, FIRST)
            await has_all_of(west, east)
            await to_and_fro(shell, guide, east, west)
            await source_broker(shell, guide, east, west)
            await target_broker(shell, guide, east, west)
            await mirrored(shell)
            first.kill()
            first.wait()
            await dead_site(shell, guide, east, west)
    assert guide.left == []


async def mirrored(shell: Terminal) -> None:
    """Waits until the target has what the group knows now: a site does not die within the same second."""
    name, since = "rocketmq_replicator_state_mirror_last_success_timestamp_seconds", time.time()

    def found() -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{shell.port}/metrics") as answer:
            return float(re.findall(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.MULTILINE)[0])

    await until(lambda: found() > since, what="the mirror")


async def to_and_fro(shell: Terminal, guide: Guide, east: Cluster, west: Cluster) -> None:
    """The first thing to type, and the way back."""
    await asyncio.to_thread(shell.begin, guide.take("replicator --source WEST:9876"))
    await asyncio.to_thread(shell.until, guide.take("replicator readiness"), "ready to switch")
    await asyncio.to_thread(shell.type, guide.take("replicator failover --dry-run"))
    back, names = "--back-url http://127.0.0.1:8083", (east.spec.name, west.spec.name)
    copied = "all that {} had is at {}"
    await asyncio.to_thread(shell.until, f"replicator reverse {back}", copied.format(*names))
    await produce(west, "orders", 50, start=200)
    await has_all_of(east, west)
    await asyncio.to_thread(shell.until, f"replicator failback {back}", copied.format(*reversed(names)))
    await produce(east, "orders", 50, start=250)
    await has_all_of(west, east)


async def source_broker(shell: Terminal, guide: Guide, east: Cluster, west: Cluster) -> None:
    """One is gone for good: the guide's names for brokers are any cluster's."""
    await east.brokers[1].kill()
    await asyncio.to_thread(shell.until, "replicator brokers list", "AWAY")
    shell.names |= {"broker-b": "east-b"}
    line = guide.take("replicator brokers forget broker-b")
    assert "east-b" in await asyncio.to_thread(shell.answer, line, "y")
    await asyncio.to_thread(shell.until, "replicator readiness", "ready to switch")
    await produce(east, "orders", 50, start=300)
    await has_all_of(west, east)


async def target_broker(shell: Terminal, guide: Guide, east: Cluster, west: Cluster) -> None:
    """One is gone for good, and what was only there is sent to the other one."""
    await west.brokers[1].kill()
    await asyncio.to_thread(shell.until, "replicator brokers list", "AWAY")
    shell.names |= {"broker-b": "west-b", "broker-a": "west-a"}
    await asyncio.to_thread(shell.answer, guide.take("replicator brokers forget broker-b --queues-to"), "y")
    await has_all_of(west, east)


async def dead_site(shell: Terminal, guide: Guide, east: Cluster, west: Cluster) -> None:
    """Nothing of it is left, nor are the workers and their disks."""
    for node in east.nodes:
        await node.kill()
    shutil.rmtree(shell.directory / "replicator-store")
    await asyncio.to_thread(shell.begin, guide.take("replicator --source EAST:9876"))
    await asyncio.to_thread(shell.until, "replicator connectors status route", "RUNNING")
    assert await perm(west) == 4
    await asyncio.to_thread(shell.type, guide.take("replicator failover --source-dead"), code=5)
    assert await perm(west) == 6


async def perm(cluster: Cluster) -> int:
    (perm,) = {topics["orders"].perm for topics in (await topics_of(cluster)).values()}
    return perm
