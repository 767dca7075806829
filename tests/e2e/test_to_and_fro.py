"""One consumer group goes to and fro between two clusters, both alive: each message is consumed exactly once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.command import run
from tests.support.javatool import Order, java_consume, java_produce
from tests.support.offsets import make_group
from tests.support.readiness import asked, health
from tests.support.traffic import create_topic, topics_of
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(600)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")

#: Messages that are produced where the group is, and how many of them it consumes there.
PRODUCED, CONSUMED = 60, 40
SWITCHES = 5
#: Or the way back would make the topics of the cluster in use read-only.
STOPPED = ("--initial-state", "stopped")


async def writable(cluster: Cluster, topic: str) -> bool:
    return any(topics[topic].perm & 2 for topics in (await topics_of(cluster)).values())


async def ready(worker: Worker) -> bool:
    return bool((await asked(worker, "GET", "readiness"))["ready"])


async def test_five_times(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """By `reverse` and `failback`, with messages in the queues at each switch."""
    topic, group = topic_name("t"), topic_name("g")
    east, west = await clusters.pair(EAST, WEST)
    await create_topic(east, topic, queues=2)
    await make_group(east, group)
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY, "--protect-target", "--session-timeout", "3")
    consumed: Counter[str] = Counter()
    async with (
        Worker(east, west, tmp_path / "there", *flags, group=topic_name("there")) as there,
        Worker(
            west, east, tmp_path / "back", *flags, "--initial-state", "stopped", group=topic_name("back")
        ) as back,
    ):
        await until(lambda: "stopped" in health(back)[1].get("route", ""))
        urls = ("--url", f"http://127.0.0.1:{there.port}", "--back-url", f"http://127.0.0.1:{back.port}")
        here, other, route = east, west, there
        for turn in range(SWITCHES + 1):
            orders = [Order(topic=topic, body=b"x", keys=f"{turn}-{i}") for i in range(PRODUCED)]
            await until(partial(writable, here, topic))
            assert {sent.status for sent in await java_produce(here.namesrv, orders)} == {"SEND_OK"}
            left = PRODUCED * (turn + 1) - len(consumed)
            count = CONSUMED if turn < SWITCHES else left
            taken = await java_consume(here.namesrv, topic, group=group, count=count, idle=20)
            consumed.update(message.properties["KEYS"] for message in taken)
            if turn == SWITCHES:
                break
            await until(partial(ready, route), what="ready to switch")
            command = "reverse" if route is there else "failback"
            report = json.loads(await run(route, command, *urls, "--output", "json"))
            assert report["failover"]["drained"]
            assert not await writable(here, topic) or await writable(other, topic)
            here, other, route = other, here, back if route is there else there
    assert len(consumed) == PRODUCED * (SWITCHES + 1)
    assert set(consumed.values()) == {1}, [key for key, times in consumed.items() if times > 1]
