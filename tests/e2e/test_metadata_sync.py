"""Topics' settings, groups and offsets on real brokers: the target is as the source, to the message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replicator.client.groups import forbid, read_groups
from replicator.client.request_modes import write_request_mode
from replicator.client.send import send_single
from replicator.client.topics import TopicConfig, write_topic
from replicator.protocol.batch import header_fields
from replicator.protocol.properties import decode, encode
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.javatool import java_consume
from tests.support.offsets import are_at, commit, make_group, offsets_of
from tests.support.pyclient import PyConsumer
from tests.support.readiness import asked, changed, exact, ready
from tests.support.traffic import (
    connected,
    create_topic,
    produce,
    raw_topic,
    send,
    topics_of,
)
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
#: Milliseconds of each attempt, instead of those of the broker's `messageDelayLevel`.
RETRY_POLICY = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 7000, 90_000]}}


def two_queues(topic: str, **more: Any) -> TopicConfig:
    return TopicConfig(name=topic, read_queues=2, write_queues=2, **more)


@asynccontextmanager
async def replicating(
    clusters: ClusterPool, directory: Path, topic: str, *flags: str, messages: int = 200
) -> AsyncIterator[tuple[Cluster, Cluster, Worker]]:
    """A topic of two queues with messages, and a worker that copies it with its metadata."""
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2)
    await produce(source, topic, messages)
    async with Worker(source, target, directory, "--topics", topic, *SYNC_QUICKLY, *flags) as worker:
        yield source, target, worker


async def test_offsets_follow(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """Of several groups, forwards while they consume; what is ahead of the copy waits; nothing goes back."""
    topic, group, other = topic_name("t"), topic_name("g"), topic_name("other")
    async with replicating(clusters, tmp_path, topic, "--sync-groups", f"{group},{other}") as (
        source,
        target,
        worker,
    ):
        for name in (group, other, topic_name("unselected")):
            await make_group(source, name)
            await commit(source, name, topic, {("east-a", 0): 37, ("east-a", 1): 100})
        await ready(worker)
        for name in (group, other):
            await exact(source, target, name, topic)
        assert await offsets_of(target, topic_name("unselected"), topic) == {}
        await commit(source, group, topic, {("east-a", 0): 64})
        await until(lambda: are_at(target, group, topic, {("west-a", 0): 64, ("west-a", 1): 100}))
        await commit(source, group, topic, {("east-a", 0): 12})
        await until(lambda: _blocked(worker, "52 copies ahead"))
        assert (await offsets_of(target, group, topic))["west-a", 0] == 64
        done = await asked(worker, "POST", "apply", {"force": [group]})
        assert [(action["after"], action["error"]) for action in done] == [({"offset": 12}, "")]
        assert (await offsets_of(target, group, topic))["west-a", 0] == 12


async def _blocked(worker: Worker, why: str) -> bool:
    return any(why in action["blocked"] for action in await asked(worker, "GET", "plan"))


async def test_offsets_with_filters_renames_and_a_late_start(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Gaps in the copy, another name, a copy that began in the middle, more messages afterwards."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    flags = ("--tags", "tag1", "--rename", "c-{topic}", "--start-from", "latest", "--sync-groups", group)
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 100)
    await make_group(source, group)
    await commit(source, group, topic, {("east-a", 0): 20, ("east-a", 1): 50})
    async with Worker(source, target, tmp_path, "--topics", topic, *SYNC_QUICKLY, *flags) as worker:
        await until(lambda: len(worker.queues(topic)) == 2 and worker.running == [topic])
        await produce(source, topic, 200, start=100)
        await worker.caught_up(topic, 60)
        told = await ready_but_for(worker, group)
        assert told["before_start"] == 30
        assert await offsets_of(target, group, f"c-{topic}") == {("west-a", 0): 0, ("west-a", 1): 0}
        for at in (71, 72, 73, 74, 150):
            await commit(source, group, topic, {("east-a", 0): at, ("east-a", 1): at})
            await until(lambda: _no_again(worker))
            await exact(source, target, group, topic, f"c-{topic}")


async def ready_but_for(worker: Worker, group: str) -> dict[str, Any]:
    """What is told of the group once there is nothing to do for it."""
    await until(lambda: _no_again(worker))
    (told,) = (await asked(worker, "GET", "readiness"))["groups"]
    assert told["group"] == group
    return dict(told)


async def _no_again(worker: Worker) -> bool:
    told = await asked(worker, "GET", "readiness")
    return bool(told["groups"]) and not any(
        group["redelivered"] + group["missed"] + group["without_offset"] for group in told["groups"]
    )


async def test_offsets_after_all_state_is_lost(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The offset map is read from the target again, as far as groups need it."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    flags = ("--topics", topic, "--standalone", "--sync-groups", f"{group}.*")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 300)
    for name in (group, f"{group}-new"):
        await make_group(source, name)
    await commit(source, group, topic, {("east-a", 0): 30, ("east-a", 1): 10})
    async with Worker(source, target, tmp_path / "one", *flags, *SYNC_QUICKLY) as worker:
        await ready(worker)
        assert await worker.drain() == 0
    await commit(source, group, topic, {("east-a", 0): 77, ("east-a", 1): 99})
    await commit(source, f"{group}-new", topic, {("east-a", 0): 5, ("east-a", 1): 149})
    async with Worker(source, target, tmp_path / "two", *flags, *SYNC_QUICKLY) as worker:
        await ready(worker)
        for name in (group, f"{group}-new"):
            await exact(source, target, name, topic)


async def test_a_message_of_others_is_not_skipped(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """A producer on the standby site: the group stays before its message, and readiness says so."""
    topic, group = topic_name("t"), topic_name("g")
    async with replicating(clusters, tmp_path, topic, "--sync-groups", group) as (source, target, worker):
        await make_group(source, group)
        await commit(source, group, topic, {("east-a", 0): 100, ("east-a", 1): 100})
        await ready(worker)
        async with connected(target) as client:
            await send(client, "west-a", topic, 0, [(b"mine", {})])
        await produce(source, topic, 20, start=200)
        await worker.caught_up(topic, 220)
        await commit(source, group, topic, {("east-a", 0): 110, ("east-a", 1): 110})
        await until(lambda: _logged(worker, "foreign message at offset 100"))
        await until(lambda: are_at(target, group, topic, {("west-a", 0): 100, ("west-a", 1): 110}))
        told = await asked(worker, "GET", "readiness")
        assert [group["redelivered"] for group in told["groups"]] == [10]
    again = await java_consume(target.namesrv, topic, group=group, count=11)  # and so it is
    assert sorted(message.properties.get("KEYS", "") for message in again) == [
        "",
        *(f"k{i}" for i in range(200, 220, 2)),
    ]


async def _logged(worker: Worker, what: str) -> bool:
    return any(what in reason for reason in (await asked(worker, "GET", "readiness"))["reasons"])


async def test_topics_and_groups_follow(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Settings at first, changes later, what is forbidden; drift is told; deletions only when asked for."""
    topic, group = topic_name("t"), topic_name("g")
    async with replicating(clusters, tmp_path, topic, "--sync-groups", group) as (source, target, worker):
        settings = {"retryMaxTimes": 3, "consumeMessageOrderly": True, "groupRetryPolicy": RETRY_POLICY}
        await make_group(source, group, consumeTimeoutMinute=7, **settings)
        await ready(worker)
        assert (await _group(target, group)).items() >= settings.items()
        config = TopicConfig(
            name=topic, read_queues=2, write_queues=2, attributes={"message.type": "FIFO"}, order=True
        )
        async with connected(source) as client:
            await write_topic(client.writer("east-a"), config)
            await forbid(client.writer("east-a"), group, topic, readable=False)
            await write_request_mode(client.writer("east-a"), group, topic, {"mode": "POP", "popShareQueueNum": 2})
        await make_group(source, group, retryMaxTimes=4, consumeEnable=False)
        await until(lambda: _same(source, target, topic, group), what="the target has all changes")
        audit = (await asked(worker, "GET", "sync"))["audit"]
        told = {(entry["kind"], entry["action"]) for entry in audit}
        assert {("groups", "create"), ("groups", "update"), ("topics", "update")} <= told
        assert all(entry["error"] == "" for entry in audit)
        assert str(group) in (worker.store / "audit.jsonl").read_text()

        async with connected(target) as client:  # somebody changes the target
            await write_topic(client.writer("west-a"), two_queues(topic, perm=4))
        await until(lambda: _blocked(worker, "manually"))
        await asyncio.sleep(1.2)
        assert (await topics_of(target))["west-a"][topic].perm == 4
        await changed(worker, on_drift="repair")
        await until(lambda: _perm_is(target, topic, 6), what="it is put right")


async def _group(cluster: Cluster, group: str) -> Mapping[str, Any]:
    async with connected(cluster) as client:
        (broker,) = client.brokers()
        return (await read_groups(client.master(broker))).groups.get(group, {})


async def _same(source: Cluster, target: Cluster, topic: str, group: str) -> bool:
    async with connected(source) as east, connected(target) as west:
        one = await read_groups(east.master("east-a"))
        other = await read_groups(west.master("west-a"))
    configs = [(await topics_of(source))["east-a"][topic], (await topics_of(target))["west-a"][topic]]
    return (
        configs[0] == configs[1]
        and one.groups[group] == other.groups[group]
        and one.forbidden[group] == other.forbidden.get(group)
        and (one.modes or {})[group] == (other.modes or {}).get(group)
    )


async def test_read_only_comes_behind_the_last_message(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Slowed down, the copy is told to be incomplete; then it is complete, and only then read-only."""
    topic = topic_name("t")
    slow = ("--rate-messages", "100")
    async with replicating(clusters, tmp_path, topic, *slow, messages=400) as (source, target, worker):
        await until(lambda: worker.has_copied(topic, 1))
        async with connected(source) as client:
            await write_topic(client.writer("east-a"), two_queues(topic, perm=4))
        await until(lambda: _blocked(worker, "messages have arrived"))
        assert (await topics_of(target))["west-a"][topic].perm == 6
        await worker.set_rates()
        await until(lambda: _perm_is(target, topic, 4), what="read-only at the target")
        assert sum(map(len, (await raw_topic(target, topic)).values())) == 400
        async with connected(source) as client:
            await write_topic(client.writer("east-a"), two_queues(topic, perm=2))
        await until(lambda: _blocked(worker, "write-only at the source"))
        assert (await topics_of(target))["west-a"][topic].perm == 4


async def _perm_is(cluster: Cluster, topic: str, perm: int) -> bool:
    return all(topics[topic].perm == perm for topics in (await topics_of(cluster)).values())


async def test_retry_topics_come_along(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Opted in: not delayed again, with their counts, and how far the group is in them; under the same name."""
    topic, group = topic_name("t"), topic_name("g")
    retry = f"%RETRY%{group}"
    source, target = await clusters.pair(EAST, WEST)
    await make_group(source, group)
    await create_topic(source, retry, queues=1)
    told = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": "0A", "UNIQ_KEY": "U1", "KEYS": "k"}
    async with connected(source) as client:
        for number in range(3):
            fields = header_fields(
                group="g", topic=retry, queue_id=0, sys_flag=0, born_timestamp=7, reconsume_times=16 + number
            )
            delay = {} if number else {"DELAY": "1"}
            fields |= {"i": encode(told | delay).decode(), "l": "99", "m": "false"}
            await send_single(client.writer("east-a"), fields, b"%d" % number)
            await until(partial(_copies, source, retry, number + 1), what="its delay is over")
    await commit(source, group, retry, {("east-a", 0): 2})
    flags = ("--topics", topic, "--sync-groups", group, "--rename", "c-{topic}", *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path / "without", *flags) as worker:
        left = {"topic": retry, "kind": "retry", "messages": 1, "parked": None}
        assert (await asked(worker, "GET", "readiness"))["pending"]["messages"] == [left]
    async with Worker(source, target, tmp_path / "with", "--retry-topics", *flags) as worker:
        assert (await asked(worker, "GET", "readiness"))["pending"]["messages"] == []
        await until(lambda: are_at(target, group, retry, {("west-a", 0): 2}))
    ((_, copies),) = (await raw_topic(target, retry)).items()
    assert [(copy.body[4:], copy.reconsume_times) for copy in copies] == [(b"0", 16), (b"1", 17), (b"2", 18)]
    assert decode(copies[0].properties)["RETRY_TOPIC"] == topic
    ((_, sent),) = (await raw_topic(source, retry)).items()
    assert "DELAY" in decode(sent[0].properties)  # with which it would have been delayed again


async def _copies(cluster: Cluster, topic: str, count: int) -> bool:
    return sum(map(len, (await raw_topic(cluster, topic)).values())) == count


async def test_python_consumers_go_on_at_the_target(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Of another client yet: what came while nobody consumed is what is read at the target, and nothing else."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2)

    async def sent(numbers: range) -> None:
        async with connected(source) as client:
            for queue_id in range(2):
                batch = [(b"%d" % i, {"KEYS": f"k{i}"}) for i in numbers if i % 2 == queue_id]
                await send(client, "east-a", topic, queue_id, batch)

    await sent(range(40))
    async with PyConsumer(source.namesrv, topic, group=group) as consumer:
        assert len(await consumer.take(40)) == 40
        ends = {("east-a", queue_id): 20 for queue_id in range(2)}  # else the last ones may come again
        await until(lambda: are_at(source, group, topic, ends), what="all of them count as consumed")
    await sent(range(40, 60))
    async with Worker(source, target, tmp_path, "--topics", topic, "--sync-groups", group, *SYNC_QUICKLY) as worker:
        await ready(worker)
        assert (await asked(worker, "POST", "failover", {"drain_timeout": 20}))["drained"]
    async with PyConsumer(target.namesrv, topic, group=group) as consumer:
        assert sorted(message.keys for message in await consumer.take(20)) == [f"k{i}" for i in range(40, 60)]


async def test_offsets_where_two_brokers_share_one(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Queues of the second broker have other ids at the target; each keeps its own place."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await clusters.pair(ClusterSpec(name="wide", version="5.3.3", brokers=2), WEST)
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 200)
    await make_group(source, group)
    places = {("wide-a", 0): 7, ("wide-a", 1): 50, ("wide-b", 0): 31, ("wide-b", 1): 0}
    await commit(source, group, topic, places)
    async with Worker(source, target, tmp_path, "--topics", topic, "--sync-groups", group, *SYNC_QUICKLY) as worker:
        await ready(worker)
        assert sorted((await offsets_of(target, group, topic)).values()) == [0, 7, 31, 50]
        await exact(source, target, group, topic)


async def test_groups_that_broadcast_keep_their_offsets_themselves(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Nothing is at the source's brokers, and nothing is written at the target's; the group itself is."""
    topic, group = topic_name("t"), topic_name("g")
    async with replicating(clusters, tmp_path, topic, "--sync-groups", group) as (source, target, worker):
        await make_group(source, group)
        assert len(await java_consume(source.namesrv, topic, group=group, count=200, broadcast=True)) == 200
        assert (await ready(worker))["groups"] == []
        await until(lambda: _group(target, group))
        assert await offsets_of(target, group, topic) == {}
