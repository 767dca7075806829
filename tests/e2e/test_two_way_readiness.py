"""Where messages flow both ways, copies that will not be copied back are not missing anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST
from tests.support.readiness import asked
from tests.support.traffic import create_topic, produce, raw_topic
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)


async def test_a_halted_way_back_lacks_only_what_was_born_there(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Of 100 copies and 7 messages that its source has, 7: in readiness, and in a failover's report."""
    topic = topic_name("t")
    east, west = await clusters.pair(EAST, WEST)
    for cluster in (east, west):
        await create_topic(cluster, topic, queues=2)
    flags = ("--topics", topic, *SYNC_QUICKLY)
    async with Worker(west, east, tmp_path / "back", *flags, group=topic_name("back")) as back:
        await until(lambda: back.running == [topic])
        assert back.ask("PUT", "/connectors/route/stop")[0] == 200
        await produce(east, topic, 100)
        async with Worker(east, west, tmp_path / "there", *flags) as there:
            await there.caught_up(topic, 100)
            await produce(west, topic, 7, start=1000)
            await until(lambda: back.topic(topic).get("lag_messages") == 107)
            (lag,) = (await asked(back, "GET", "readiness"))["topics"]
            assert (lag["messages"], lag["counted"], lag["problem"]) == (7, True, "")
            assert lag["seconds"] > 0
            (missing,) = (await asked(back, "POST", "failover", {"dry_run": True}))["missing"]
            assert missing["messages"] == 7
            status, refused = await asyncio.to_thread(back.ask, "POST", "/connectors/route/failover", {})
            assert status == 409
            assert f"is STOPPED, so it does not copy what east lacks of west: {topic} (7 messages)" in str(refused)
            assert "`replicator connectors resume route`" in refused["hint"]
            assert back.ask("PUT", "/connectors/route/resume")[0] == 200
            await until(lambda: back.has_copied(topic, 7))
            report = await asked(back, "POST", "failover", {"drain_timeout": 20})
            assert (report["drained"], report["missing"]) == (True, [])
    assert sum(map(len, (await raw_topic(east, topic)).values())) == 107
