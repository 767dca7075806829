"""The main job, on real brokers: every message once, in order, unchanged, to the queue it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from replicator.settings import Settings
from tests.support.clusters import ClusterPool
from tests.support.traffic import create_topic, judge, produce, topics_of
from tests.support.worker import Worker, until

VERSIONS = [("4.9.7", "5.5.0"), ("5.5.0", "4.9.7"), ("5.3.3", "5.3.3")]


@pytest.mark.parametrize(("source_version", "target_version"), VERSIONS)
async def test_everything_crosses_once_in_order_and_unchanged(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_version: str,
    target_version: str,
) -> None:
    """What lay there before the start, and what comes while it runs."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version=source_version), ClusterSpec(name="west", version=target_version)
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=4)
    await produce(source, topic, 5000)
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 5000)
        await produce(source, topic, 3000, start=5000)
        await worker.caught_up(topic, 8000)
        assert await worker.drain() == 0
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == 8000


@pytest.mark.side_by_side("wide")
async def test_two_source_brokers_share_one_target_broker(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Queue ids are shifted, never shared."""
    source, target = await clusters.pair(
        ClusterSpec(name="wide", brokers=2), ClusterSpec(name="west", version="5.5.0")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=3)
    await produce(source, topic, 3000)
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 3000)
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert (await topics_of(target))["west-a"][topic].queues == 6


@pytest.mark.side_by_side("wide")
async def test_one_source_broker_to_two_target_brokers(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The queues of one source broker stay together, with their ids."""
    source, target = await clusters.pair(
        ClusterSpec(name="west", version="5.5.0"), ClusterSpec(name="wide", brokers=2)
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=3)
    await produce(source, topic, 3000)
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 3000)
        assert {q["source"]["queue"]: q["target"]["queue"] for q in worker.queues(topic)} == {0: 0, 1: 1, 2: 2}
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


async def test_new_topics_and_new_queues_are_copied_from_their_first_message(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Also when the route itself begins with the latest message; it looks as often as it does by default."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
    )
    interval = Settings.model_fields["metadata_refresh_interval"].default
    first, late = topic_name("first"), topic_name("late")
    await create_topic(source, first, queues=2)
    await produce(source, first, 100)
    pattern = topic_name(".*")
    flags = ("--topics", pattern, "--start-from", "latest", "--metadata-refresh-interval", str(interval))
    async with Worker(source, target, tmp_path, *flags) as worker:
        await until(lambda: worker.topic(first)["state"] == "RUNNING")
        await create_topic(source, late, queues=2)
        await produce(source, late, 500)
        await create_topic(source, first, queues=4)
        await produce(source, first, 400, start=100)
        await worker.caught_up(late, 500, seconds=10)
        await worker.caught_up(first, 400, seconds=10)
    verdict = await judge(source, target, late)
    assert verdict.clean, verdict.report()
    verdict = await judge(source, target, first)
    assert len(verdict.lost) == 100
    assert verdict.copies == 400


async def test_a_topic_made_while_the_target_is_away(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Its name server is: the topic is copied once that answers again, though nothing else is new then."""
    source = await clusters.get(ClusterSpec(name="east", version="5.3.3"))
    first, late = topic_name("first"), topic_name("late")
    await create_topic(source, first, queues=2)
    async with (
        clusters.lent(ClusterSpec(name="west", version="5.3.3")) as target,
        Worker(source, target, tmp_path, "--topics", topic_name(".*"), "--log-level", "debug") as worker,
    ):
        await until(lambda: worker.topic(first)["state"] == "RUNNING")
        await until(lambda: '"changed": false, "event": "cluster metadata refreshed"' in worker.log)
        target.nameserver.pause()
        await until(lambda: "refresh failed" in worker.log)
        await create_topic(source, late, queues=2)
        await produce(source, late, 100)
        looks = worker.log.count("refresh failed")
        await until(lambda: worker.log.count("refresh failed") > looks + 1)
        target.nameserver.resume()
        await worker.caught_up(late, 100)
        verdict = await judge(source, target, late)
        assert verdict.clean, verdict.report()


async def test_a_renamed_topic(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """The template names it at the target."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 200)
    async with Worker(source, target, tmp_path, "--topics", topic, "--rename", "{source}_{topic}") as worker:
        await worker.caught_up(topic, 200)
    verdict = await judge(source, target, topic, target_topic=f"east_{topic}")
    assert verdict.clean, verdict.report()
