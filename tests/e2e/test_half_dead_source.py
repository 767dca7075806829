"""One of two source brokers is lost when applications are switched: all of the other, the truth about the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.readiness import asked
from tests.support.traffic import create_topic, produce, raw_topic
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

TWO, WEST = ClusterSpec(name="wide", version="5.3.3", brokers=2), ClusterSpec(name="west", version="5.3.3")


async def test_everything_of_the_half_that_lives(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """And how far each dead queue was copied, in offset and time; nothing is copied twice once it is back."""
    topic = topic_name("t")
    target = await clusters.get(WEST)
    async with clusters.lent(TWO) as source:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 400)
        flags = ("--topics", topic, *SYNC_QUICKLY, "--session-timeout", "3")
        async with Worker(source, target, tmp_path, *flags) as worker:
            await worker.caught_up(topic, 400)
            before = time.time()
            dead = source.brokers[1]
            await dead.kill()
            await until(lambda: worker.running == [], what="half of it waits")
            report = await asked(worker, "POST", "failover", {"drain_timeout": 3})
            assert (report["stopped"], report["drained"]) == (True, False)
            ((missing),) = report["missing"]
            assert missing["messages"] == 0
            unknown: list[dict[str, Any]] = missing["unknown_queues"]
            assert [(each["broker"], each["queue"]) for each in unknown] == [("wide-b", 0), ("wide-b", 1)]
            assert {each["position"] for each in unknown} == {100}
            assert all(before - 120 < each["copied_until"] < before for each in unknown)
            await dead.start()
            assert worker.ask("PUT", "/connectors/route/resume")[0] == 200
            await until(lambda: worker.running == [topic])
        assert sum(map(len, (await raw_topic(target, topic)).values())) == 400
