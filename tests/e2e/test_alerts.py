"""What goes wrong between real brokers, and the alerts that a real Prometheus fires then: those, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.protocol.properties import BROKER_MADE, decode, without
from replicator.sandbox import Cluster
from tests.support.alerts import fires, rests, watching
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST
from tests.support.offsets import commit, make_group
from tests.support.prometheus import Prometheus
from tests.support.scene import SOURCE, SceneOf
from tests.support.traffic import connected, create_topic, produce, raw_topic, remove_topic, send
from tests.support.worker import Worker, until
from tools.alerts_page import PAGE, SEEN, page

pytestmark = pytest.mark.timeout(300)

FLAGS = (
    *("--sync", "topics,groups,offsets", "--sync-offsets-interval", "0.5", "--session-timeout", "4"),
    *("--sync-topics-interval", "0.5", "--sync-groups-interval", "0.5", "--on-error", "skip"),
    *("--stall-timeout", "2"),
)
#: With our provenance its properties are longer than a message can have.
TOO_LONG = (b"too long", {"KEYS": "k", "filling": "x" * 32_692})
HERE = ("DuplicateMessages", "MessagesRefused", "QueuesFailed", "GroupsWouldMiss", "SourceReset")
TARGET_AWAY = (
    *("LagHigh", "LagCritical", "NothingCopied", "QueuesWaiting", "QueuesStalled", "SyncOld", "StateNotMirrored"),
)
SOURCE_AWAY = ("NoLease", "NoActiveLease", "RefreshOld")


async def test_alerts_fire_when_they_should_and_rest_else(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Damage at both sides, the target away, the disk away, the source away, the worker gone."""
    async with clusters.lent(EAST) as source, clusters.lent(WEST) as target:
        topics = {name: topic_name(name) for name in ("orders", "recreated", "gone", "strict")}
        for topic in topics.values():
            await create_topic(source, topic, queues=1)
            await produce(source, topic, 50)
        group = topic_name("group")
        await make_group(source, group)
        await commit(source, group, topics["orders"], {("east-a", 0): 10})
        routed = [topics[name] for name in ("orders", "recreated", "gone")]
        flags = (*FLAGS, "--topics", ",".join(routed), "--sync-groups", group)
        async with Worker(source, target, tmp_path / "worker", *flags) as worker:
            await _caught_up(worker, routed)
            async with watching(tmp_path / "prometheus", [worker]) as prometheus:
                await until(lambda: prometheus.now("count_over_time(up[3s]) >= 3"))
                assert not prometheus.firing()
                await _damage(source, target, worker, topics, group)
                await fires(prometheus, *HERE)
                await _drop(worker, topics["gone"])
                await fires(prometheus, "TopicGone")
                assert worker.ask("DELETE", "/connectors/strict")[0] == 200
                await rests(prometheus, "QueuesFailed", "MessagesRefused", "SourceReset")
                await _target_and_disk_away(prometheus, source, target, worker, topics["orders"])
                await _source_away(prometheus, source)
                await worker.kill()
                await fires(prometheus, "WorkerDown", "Absent")
                _no_others(prometheus)


async def test_an_alert_of_leases_that_are_lost_again_and_again(scene: SceneOf, tmp_path: Path) -> None:
    """The source is away for longer than a lease lasts, three times in a row."""
    async with scene(mistreated=(SOURCE,), queues=1) as here:
        await here.produce(50)
        async with here.worker("--heartbeat-interval", "0.3", "--session-timeout", "1.2") as worker:
            await worker.caught_up(here.topic, 50)
            async with watching(tmp_path / "prometheus", [worker]) as prometheus:
                await until(lambda: prometheus.now("rocketmq_replicator_fencings_total == 0"))
                for times in range(1, 4):
                    await _lose_lease(here.source, worker, times)
                await fires(prometheus, "LeasesLost")
                await rests(prometheus, "LeasesLost")


async def _lose_lease(source: Cluster, worker: Worker, times: int) -> None:
    (broker,) = source.brokers
    broker.pause()
    try:
        await until(lambda: worker.log.count("lease lost") >= times)
    finally:
        broker.resume()
    await until(lambda: worker.running, what="it runs again")


async def _caught_up(worker: Worker, topics: list[str]) -> None:
    for topic in topics:
        await worker.caught_up(topic, 50)


async def _damage(source: Cluster, target: Cluster, worker: Worker, topics: dict[str, str], group: str) -> None:
    orders, recreated, strict = (topics[name] for name in ("orders", "recreated", "strict"))
    # A copy that comes twice, and a group that is ahead of what it has read.
    (copy,) = [message for message in (await raw_topic(target, orders))["west-a", 0] if message.queue_offset == 7]
    async with connected(target) as client:
        await send(client, "west-a", orders, 0, [(copy.body[4:], _properties(copy.properties))])
    await commit(target, group, orders, {("west-a", 0): 40})
    # A message that the target cannot take, with each policy.
    assert (
        worker.ask("POST", "/connectors/strict", {"topics": strict, "on_error": "fail", "sync": "none"})[0] == 201
    )
    async with connected(source) as client:
        for topic in (orders, strict):
            await send(client, "east-a", topic, 0, [TOO_LONG])
    await produce(source, orders, 5)
    # A recreated topic.
    await remove_topic(source, recreated)
    await create_topic(source, recreated, queues=1)
    await produce(source, recreated, 10)


async def _drop(worker: Worker, topic: str) -> None:
    """The route copies the topic no more."""
    config = worker.ask("GET", "/connectors/route/config")[1]
    assert topic in config["topics"]
    left = [name for name in config["topics"] if name != topic]
    assert worker.ask("PUT", "/connectors/route", {**config, "topics": left})[0] == 200


def _properties(raw: bytes) -> dict[str, str]:
    return decode(without(raw, BROKER_MADE))


async def _target_and_disk_away(
    prometheus: Prometheus, source: Cluster, target: Cluster, worker: Worker, topic: str
) -> None:
    (broker,) = target.brokers
    away = worker.store.with_name("away")
    broker.pause()
    worker.store.rename(away)
    worker.store.write_text("not a directory")
    try:
        await produce(source, topic, 20, start=9100)
        await fires(prometheus, *TARGET_AWAY, "StateNotSaved")
    finally:
        worker.store.unlink()
        away.rename(worker.store)
        broker.resume()
    await rests(prometheus, *TARGET_AWAY, "StateNotSaved")


async def _source_away(prometheus: Prometheus, source: Cluster) -> None:
    (broker,) = source.brokers
    broker.pause()
    try:
        await fires(prometheus, *SOURCE_AWAY)
    finally:
        broker.resume()
    await rests(prometheus, *SOURCE_AWAY)


def _no_others(prometheus: Prometheus) -> None:
    """But that a lease which the first late heartbeats bring back may be lost once more, in so short a quarter."""
    names = {name.removeprefix("Replicator") for name in prometheus.fired()} - {"LeasesLost"}
    expected = {*HERE, "TopicGone", *TARGET_AWAY, "StateNotSaved", *SOURCE_AWAY, "WorkerDown", "Absent"}
    assert names == expected
    assert names <= SEEN.keys()


def test_what_is_seen_is_in_the_page() -> None:
    """As the generator writes it, from the rules as they are."""
    assert PAGE.read_text(encoding="utf-8") == page()
    alerts = {name.removeprefix("Replicator") for name in re.findall(r"^\| (\w+)", page(), re.MULTILINE)}
    assert SEEN.keys() <= alerts
