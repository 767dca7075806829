"""Brokers that are added, that move, and that are gone for good, on either side of a route."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from replicator.client.topics import TopicConfig, write_topic
from replicator.sandbox import Broker, Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.group import workers_of
from tests.support.offsets import commit, make_group
from tests.support.readiness import asked, exact, ready
from tests.support.scene import SOURCE, TARGET
from tests.support.traffic import (
    Producer,
    connected,
    create_topic,
    has_perm,
    judge,
    perms,
    produce,
    raw_topic,
    send,
)
from tests.support.worker import SYNC_QUICKLY, Worker, command, until

pytestmark = pytest.mark.timeout(300)

WIDE = ClusterSpec(name="wide", version="5.3.3", brokers=2)


def forget(worker: Worker, *arguments: str) -> CompletedProcess[str]:
    """The command `brokers forget`, in a thread."""
    return command({"REPLICATOR_URL": f"http://127.0.0.1:{worker.port}"}, "brokers", "forget", *arguments)


def states(worker: Worker) -> dict[tuple[str, str], str]:
    """Of all brokers, by side and name."""
    return {(each["side"], each["broker"]): each["state"] for each in worker.ask("GET", "/brokers")[1]}


def state_of(worker: Worker) -> str:
    """Of the connector, as one worker knows it."""
    state: str = worker.ask("GET", "/connectors/route/status")[1]["connector"]["state"]
    return state


async def has_copies_of(target: Cluster, topic: str, broker: str, count: int) -> bool:
    """Whether so many messages of a source broker are at the target."""
    found = (await raw_topic(target, topic)).values()
    return sum(f"/{broker}/".encode() in message.properties for queue in found for message in queue) == count


async def assert_clean_soon(source: Cluster, target: Cluster, topic: str, copies: int) -> None:
    """All of them once, in order, when they are there."""

    async def arrived() -> bool:
        return sum(map(len, (await raw_topic(target, topic)).values())) >= copies

    await until(arrived, what=f"{copies} copies")
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    assert verdict.copies == copies


async def lists(cluster: Cluster, broker: Broker, wanted: bool) -> bool:
    """Whether the name server lists a broker, or does not any more."""
    return await cluster.nameserver.lists(broker.address) == wanted


async def not_ready(worker: Worker) -> bool:
    """Whether the end of a queue is not known."""
    found: dict[str, Any] = await asked(worker, "GET", "readiness")
    return any("the end of the source queue is not known" in reason for reason in found["reasons"])


async def test_at_the_source(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """One is added under load, is taken away for good, and is there again after all, at another address."""
    topic, target = topic_name("t"), await clusters.get(TARGET)
    async with clusters.lent(WIDE) as source:
        broker = source.brokers[1]
        await broker.kill()  # before this worker has ever seen it
        await until(partial(lists, source, broker, False))
        await create_topic(source, topic, queues=2)
        flags = ("--topics", topic, *SYNC_QUICKLY, "--metadata-refresh-interval", "5")
        async with Worker(source, target, tmp_path, *flags) as worker:
            async with Producer(source, topic, per_second=500) as producer:
                await until(lambda: worker.has_copied(topic, 100))
                await broker.start()
                await create_topic(source, topic, queues=2)
                began = time.monotonic()
                await produce(source, topic, 8, start=900_000)  # two to each queue
                await until(partial(has_copies_of, target, topic, broker.name, 4), seconds=10)
                assert time.monotonic() - began < 10
            total = producer.acknowledged + 8
            await assert_clean_soon(source, target, topic, total)
            assert worker.metric("errors_total") == 0

            assert worker.ask("POST", f"/brokers/source/{broker.name}/forget", {})[0] == 409
            await broker.kill()
            await until(partial(not_ready, worker), what="the end of its queues is not known")
            shown = await asyncio.to_thread(forget, worker, broker.name)
            assert (shown.returncode, shown.stderr) == (5, "Nothing was changed: give --yes.\n")
            assert states(worker)["source", broker.name] == "AWAY"
            done = await asyncio.to_thread(forget, worker, broker.name, "--yes", "-o", "json")
            assert done.returncode == 0, done.stderr
            queues = json.loads(done.stdout)["queues"]
            assert [each["source"]["queue"] for each in queues] == [0, 1]
            assert sum(each["position"] for each in queues) == 4
            await ready(worker)
            assert states(worker)["source", broker.name] == "FORGOTTEN"
            assert {queue["source"]["broker"] for queue in worker.queues(topic)} == {source.brokers[0].name}

            broker.move()
            await broker.start()
            await produce(source, topic, 100, start=910_000)
            await assert_clean_soon(source, target, topic, total + 100)
            assert states(worker)["source", broker.name] == "ONLINE"
            assert "forgotten broker is back" in worker.log


async def test_a_failover_opens_the_copies_of_a_forgotten_source_broker(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """One topic was there alone: nothing of the source is left that says what it was."""
    both, alone, target = topic_name("both"), topic_name("alone"), await clusters.get(TARGET)
    async with clusters.lent(WIDE) as source:
        lost = source.brokers[1]
        await create_topic(source, both, queues=1)
        async with connected(source) as client:
            config = TopicConfig(name=alone, read_queues=1, write_queues=1)
            await write_topic(client.writer(lost.name), config)
            await send(client, lost.name, alone, 0, [(b"%d" % n, {"UNIQ_KEY": f"A{n}"}) for n in range(10)])
        await produce(source, both, 20)
        flags = ("--topics", f"{both}|{alone}", *SYNC_QUICKLY, "--protect-target")
        async with Worker(source, target, tmp_path, *flags) as worker:
            await ready(worker)
            for topic in (both, alone):
                await until(partial(has_perm, target, topic, 4), what="the target is protected")
            await lost.kill()
            await until(lambda: states(worker)["source", lost.name] == "AWAY")
            done = await asyncio.to_thread(forget, worker, lost.name, "--yes")
            assert done.returncode == 0, done.stderr
            report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
            assert (report["drained"], report["problems"]) == (True, [])
            assert report["topics_opened"] == sorted([both, alone])
            for topic, count in ((both, 20), (alone, 10)):
                assert await perms(target, topic) == {6}
                assert sum(map(len, (await raw_topic(target, topic)).values())) == count


async def test_at_the_target(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """One moves, and is taken away for good: its queues go to the other one, with what was only there."""
    topic, group, source = topic_name("t"), topic_name("g"), await clusters.get(SOURCE)
    await create_topic(source, topic, queues=2)
    async with clusters.lent(WIDE) as target:
        lost, other = target.brokers
        async with Worker(source, target, tmp_path, "--topics", topic, *SYNC_QUICKLY) as worker:
            await produce(source, topic, 400)
            await worker.caught_up(topic, 400)
            await lost.stop()
            lost.move()
            await lost.start()
            await produce(source, topic, 100, start=400)
            await worker.caught_up(topic, 500)
            await make_group(source, group)
            await commit(source, group, topic, {("east-a", 0): 100, ("east-a", 1): 30})
            await ready(worker)

            await lost.kill()
            await produce(source, topic, 100, start=500)  # for nowhere, yet
            refused = await asyncio.to_thread(forget, worker, lost.name, "--yes")
            assert refused.returncode != 0
            assert "2 queues are copied to broker wide-a: say which broker takes them: --queues-to wide-b" in (
                refused.stderr
            )
            choices = ("--queues-to", other.name, "--lost", "resend", "--yes", "-o", "json")
            done = await asyncio.to_thread(forget, worker, lost.name, *choices)
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            assert (report["copies"], report["lost"]) == (500, "resend")
            assert {each["moved_to"]["broker"] for each in report["queues"]} == {other.name}
            await assert_clean_soon(source, target, topic, 600)
            assert worker.metric("target_lost_messages_total") == 500
            await ready(worker)
            await exact(source, target, group, topic)

            async with Producer(source, topic, per_second=300) as producer:
                await lost.start()  # with copies that nobody counts on any more
                await until(lambda: "forgotten broker is back" in worker.log)
            await worker.caught_up(topic, 1100 + producer.acknowledged, in_all=True)
            assert {queue["target"]["broker"] for queue in worker.queues(topic)} == {other.name}
            assert (worker.topic(topic)["duplicates"], worker.topic(topic)["foreign"]) == (0, 0)


async def test_a_worker_is_killed_while_it_moves_queues(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The route that it has stopped runs again once another worker was told the same."""
    topic, source = topic_name("t"), await clusters.get(SOURCE)
    await create_topic(source, topic, queues=4)
    async with clusters.lent(WIDE) as target:
        lost, other = target.brokers
        flags = ("--topics", topic, *SYNC_QUICKLY, "--session-timeout", "3")
        async with workers_of(source, target, tmp_path, 2, *flags) as (first, second):
            await until(lambda: sum(len(each.running) for each in (first, second)) == 1)
            await produce(source, topic, 400)
            await assert_clean_soon(source, target, topic, 400)
            await lost.kill()
            choices = ("--queues-to", other.name, "--lost", "resend", "--yes")
            moving = asyncio.create_task(asyncio.to_thread(forget, first, lost.name, *choices))
            await until(lambda: state_of(second) == "STOPPED")
            await first.kill()
            await moving
            assert state_of(second) == "STOPPED"
            done = await asyncio.to_thread(forget, second, lost.name, *choices)
            assert done.returncode == 0, done.stderr
            assert state_of(second) == "RUNNING"
            await produce(source, topic, 100, start=400)
            await assert_clean_soon(source, target, topic, 500)
            assert {queue["target"]["broker"] for queue in second.queues(topic)} == {other.name}
