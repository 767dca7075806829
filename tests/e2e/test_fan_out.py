"""One source, two targets: while one of them is away, the other gets everything at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from replicator.routing import provenance
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.traffic import create_topic, judge, produce, raw_topic
from tests.support.worker import Worker, group_of_test, until

pytestmark = pytest.mark.timeout(900)

EAST, NEAR, AWAY = (
    ClusterSpec(name="east", version="5.3.3"),
    ClusterSpec(name="west", version="5.3.3"),
    ClusterSpec(name="away", version="5.3.3"),
)


@pytest.mark.parametrize("rounds", [20, 600], ids=["seconds", "minutes"])
async def test_a_target_that_is_away_holds_no_other_back(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    record_testsuite_property: Callable[[str, object], None],
    rounds: int,
) -> None:
    """Messages come all the time; once the target is back it gets what it lacks, in order, once.

    How long each message was on its way to the other target is what both brokers' stores say, on one clock.
    """
    source, near = await clusters.pair(EAST, NEAR)
    topic, sent = topic_name("t"), 0
    await create_topic(source, topic, queues=4)
    async with clusters.lent(AWAY) as away:
        flags = ("--topics", topic)
        async with (
            Worker(source, near, tmp_path / "near", *flags, group=f"{group_of_test()}-near") as one,
            Worker(source, away, tmp_path / "away", *flags, group=f"{group_of_test()}-away") as other,
        ):
            await produce(source, topic, 100)
            for worker in (one, other):
                await worker.caught_up(topic, 100)
            await away.brokers[0].kill()
            for sent in range(100, 100 + 50 * rounds, 50):
                await produce(source, topic, 50, start=sent)
                await asyncio.sleep(0.5)
            await one.caught_up(topic, sent + 50)
            seconds = await _on_the_way(near, topic)
            measured = f"{median(seconds):.3f} {max(seconds):.3f}"
            record_testsuite_property("seconds on the way, median and most", measured)
            assert len(seconds) == sent + 50
            assert max(seconds) < 2
            await until(lambda: other.topic(topic)["lag_messages"] == 50 * rounds, what="its lag")
            await away.brokers[0].start()
            await other.caught_up(topic, sent + 50)
            for worker in (one, other):
                assert await worker.drain() == 0
        for target in (near, away):
            assert (await judge(source, target, topic)).clean


async def _on_the_way(target: Cluster, topic: str) -> list[float]:
    """Seconds between the source's and the target's store times of each copy."""
    found = []
    for messages in (await raw_topic(target, topic)).values():
        for message in messages:
            copy = provenance.of(message, topic)
            assert copy is not None
            found.append((message.store_timestamp - copy.stored) / 1000)
    return found
