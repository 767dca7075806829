"""Groups of gRPC clients, which consume by POP through a Proxy, switch sites in mid-stream and hold messages.

Brokers move a POP group's offset when they deliver a message. What its consumers have not acknowledged when they
switch must be delivered at the target all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.grpctool import Got, grpc_consume, grpc_produce, judge_exact
from tests.support.offsets import make_group
from tests.support.pygrpc import python_consume
from tests.support.readiness import asked, health, ready
from tests.support.traffic import configured, create_topic, raw_topic
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

EAST = ClusterSpec(name="east", version="5.3.3", proxy=True)
WEST = ClusterSpec(name="west", version="5.5.0", proxy=True)
#: Messages of each test, those that are consumed at the source, and those of them that are not acknowledged there.
ALL, FIRST, HELD = 60, 40, {"7", "23", "31"}


async def scene(
    clusters: ClusterPool, topic: str, group: str, kind: str, **settings: object
) -> tuple[Cluster, Cluster]:
    """A topic of that type, and a group, at the source."""
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic, queues=2, attributes={"message.type": kind})
    await make_group(source, group, **settings)
    return source, target


def short(name: str) -> str:
    """What of a name no other test has: names of retry topics have one of a group, and one of a topic."""
    return name[-10:]


async def in_flight(worker: Worker, topic: str, held: int) -> dict[str, Any]:
    """What readiness says once `held` messages or more are known to be in flight."""
    told: dict[str, Any] = {}
    looks: list[int] = []

    async def known() -> bool:
        groups = (await asked(worker, "GET", "readiness"))["groups"]
        told.update(next((each for each in groups if each["topic"] == topic), {}))
        looks.append(told.get("in_flight", -1))
        return len(looks) > 1 and looks[-1] == looks[-2] >= held

    try:
        await until(known, what="the messages in flight are known")
    except TimeoutError:
        raise AssertionError(f"{looks[-5:]}, {told}\n{worker.log[-3000:]}") from None
    return told


async def failed_over(worker: Worker) -> dict[str, Any]:
    """The report of a failover from a dead source, which takes long where nobody answers the group."""
    told: dict[str, Any] = {}

    async def done() -> bool:
        status, found = await asyncio.to_thread(
            worker.ask, "POST", "/connectors/route/failover", {"source_dead": True}
        )
        told.update(found)
        return status == 200

    await until(done, seconds=120, what="it is failed over")
    return told


async def switched(worker: Worker, topic: str, held: int) -> dict[str, Any]:
    """Fails over once `held` messages or more are known to be in flight; what readiness said before."""
    told = await in_flight(worker, topic, held)
    await ready(worker)
    done = await asked(worker, "POST", "failover", {"drain_timeout": 20})
    assert done["drained"]
    assert done["problems"] == []
    of_topic = [each for each in done["groups"] if each["topic"] == topic]
    assert [each["in_flight"] for each in of_topic] == [told["in_flight"]]
    assert [each["to_retry_topic"] for each in of_topic] == [told["to_retry_topic"]], of_topic
    assert all(each["missed"] == each["redelivered"] == 0 for each in of_topic)
    return told


def judge(before: list[Got], after: list[Got], told: dict[str, Any], wanted: set[str]) -> None:
    """All arrived somewhere, what was held arrives at the target, and no more comes again than was said."""
    done = {each.body for each in before if each.acknowledged}
    there = [each.body for each in after]
    held = {each.body for each in before if not each.acknowledged}
    assert len(there) == len({*there})
    assert done | {*there} == wanted
    assert held <= {*there}
    assert len(done & {*there}) == told["acknowledged_after"]
    assert {each.body for each in after if each.attempt > 1} >= (held if told["to_retry_topic"] else set())


@pytest.mark.parametrize(("push_first", "push_then"), [(False, True), (True, False)], ids=["simple", "push"])
async def test_what_consumers_hold_is_delivered_at_the_target(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], *, push_first: bool, push_then: bool
) -> None:
    topic, group = topic_name("t"), short(topic_name("g"))
    source, target = await scene(clusters, topic, group, "NORMAL")
    await grpc_produce(source.proxy.address, topic, ALL)
    before = await grpc_consume(
        source.proxy.address,
        topic,
        group,
        count=FIRST,
        hold=HELD,
        mode="push" if push_first else "simple",
        invisible_s=120,
    )
    held = sum(not each.acknowledged for each in before)
    assert held
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        told = await switched(worker, topic, held)
        assert push_first or told["in_flight"] == held  # a push consumer holds what it has fetched ahead, too
    assert (told["to_retry_topic"], told["acknowledged_after"]) == (told["in_flight"], 0), told
    after = await grpc_consume(target.proxy.address, topic, group, mode="push" if push_then else "simple")
    judge(before, after, told, {str(i) for i in range(ALL)})
    if not push_first:
        judge_exact(before, after, {str(i) for i in range(ALL)})


@pytest.mark.parametrize("another", [False, True], ids=["same worker", "another worker"])
async def test_what_they_hold_of_a_source_that_died(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], *, another: bool
) -> None:
    """It is read from the target, also by a worker without disk; a repeated failover puts nothing there again."""
    topic, group = topic_name("t"), short(topic_name("g"))
    target = await clusters.get(WEST)
    async with clusters.fresh(EAST) as source:
        await create_topic(source, topic, queues=2, attributes={"message.type": "NORMAL"})
        await make_group(source, group)
        await grpc_produce(source.proxy.address, topic, ALL)
        before = await grpc_consume(source.proxy.address, topic, group, count=FIRST, hold=HELD, invisible_s=120)
        held = sum(not each.acknowledged for each in before)
        assert held
        flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
        async with AsyncExitStack() as workers:
            worker = await workers.enter_async_context(Worker(source, target, tmp_path / "1", *flags))
            await in_flight(worker, topic, held)
            await ready(worker)
            at = time.time() + 1
            await until(lambda: worker.metric("state_mirror_last_success_timestamp_seconds") > at)
            if another:
                await worker.kill()
            for node in source.nodes:
                await node.kill()
            if another:
                worker = await workers.enter_async_context(Worker(source, target, tmp_path / "2", *flags))
                await until(lambda: "the source is away" in health(worker)[1].get("worker", ""))
                await until(lambda: worker.ask("GET", "/connectors/route/status")[0] == 200)
            for _ in range(2):
                report = await failed_over(worker)
                (found,) = (each for each in report["groups"] if each["topic"] == topic)
                counts = (found["in_flight"], found["to_retry_topic"], found["acknowledged_after"], found["missed"])
                assert counts == (held, held, 0, 0), report
                assert not any("POP" in problem for problem in report["problems"])
    after = await grpc_consume(target.proxy.address, topic, group)
    judge_exact(before, after, {str(i) for i in range(ALL)})


async def test_a_failover_that_is_killed_and_repeated(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """While it puts what is held into the retry topic: each message is there once in the end."""
    topic, group, count = topic_name("t"), short(topic_name("g")), 400
    source, target = await scene(clusters, topic, group, "NORMAL")
    await grpc_produce(source.proxy.address, topic, count)
    held = {str(i) for i in range(count) if i % 4}
    before = await grpc_consume(source.proxy.address, topic, group, count=count, hold=held, invisible_s=200)
    assert {each.body for each in before if not each.acknowledged} == held
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    retry = f"%RETRY%{group}_{topic}"
    async with Worker(source, target, tmp_path, *flags) as worker:
        await in_flight(worker, topic, len(held))
        await ready(worker)
        failing = asyncio.create_task(asked(worker, "POST", "failover", {"drain_timeout": 20}))
        await until(lambda: _has_some(target, retry), what="some are in the retry topic")
        await worker.kill()
        await asyncio.wait([failing])
        assert failing.exception() is not None
        first = sum(map(len, (await raw_topic(target, retry)).values()))
        await worker.start()
        await until(lambda: worker.ask("GET", "/connectors/route/readiness")[0] == 200, what="the route is known")
        report = await asked(worker, "POST", "failover", {"drain_timeout": 20})
        assert report["problems"] == [], report
        (found,) = (each for each in report["groups"] if each["topic"] == topic)
        assert (found["to_retry_topic"], found["acknowledged_after"]) == (len(held), 0)
    assert 0 < first < len(held), "it was killed too late"
    assert await _holds(target, retry, len(held))
    after = await grpc_consume(target.proxy.address, topic, group)
    judge_exact(before, after, {str(i) for i in range(count)})


async def test_what_consumers_hold_is_known_through_a_proxy(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The records of it are in topics that a Proxy lets be pulled; the group has to be at the target."""
    topic, group = topic_name("t"), topic_name("g")
    source, target = await scene(clusters, topic, group, "NORMAL")
    await make_group(target, group)
    await grpc_produce(source.proxy.address, topic, ALL)
    before = await grpc_consume(source.proxy.address, topic, group, count=FIRST, hold=HELD, invisible_s=120)
    held = sum(not each.acknowledged for each in before)
    assert held
    named = ("--topics", topic, "--sync", "offsets", "--sync-groups", group, "--sync-offsets-interval", "0.5")
    flags = ("--source-proxy", "--coordination", "target", *named)
    async with Worker(source.proxy.remoting_address, target, tmp_path, *flags) as worker:
        told = await switched(worker, topic, held)
        assert told["in_flight"] == held
    judge(before, await grpc_consume(target.proxy.address, topic, group), told, {str(i) for i in range(ALL)})


async def test_the_client_for_python(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """It begins at the source and goes on at the target."""
    topic, group = topic_name("t"), short(topic_name("g"))
    source, target = await scene(clusters, topic, group, "NORMAL")
    await grpc_produce(source.proxy.address, topic, ALL)
    before = await python_consume(source.proxy.address, topic, group, tmp_path, count=FIRST, hold=HELD)
    held = sum(not each.acknowledged for each in before)
    assert held
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path / "worker", *flags) as worker:
        told = await switched(worker, topic, held)
    after = await python_consume(target.proxy.address, topic, group, tmp_path)
    judge(before, after, told, {str(i) for i in range(ALL)})


@pytest.mark.parametrize("python", [False, True], ids=["java", "python"])
async def test_in_order_groups_go_on_where_they_are(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], *, python: bool
) -> None:
    """FIFO: offsets move with acknowledgements only; at the target the order of each message group holds."""
    topic, group = topic_name("t"), short(topic_name("g"))

    async def consume(cluster: Cluster, **options: Any) -> list[Got]:
        if python:
            return await python_consume(cluster.proxy.address, topic, group, tmp_path, **options)
        return await grpc_consume(cluster.proxy.address, topic, group, invisible_s=120, **options)

    source, target = await scene(clusters, topic, group, "FIFO", consumeMessageOrderly=True)
    await grpc_produce(source.proxy.address, topic, ALL, type_="fifo")
    before = await consume(source, count=FIRST, hold={"31"})
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path / "worker", *flags) as worker:
        await switched(worker, topic, 0)
    after = await consume(target)
    done = {each.body for each in before if each.acknowledged}
    assert done | {each.body for each in after} == {str(i) for i in range(ALL)}
    of_groups: dict[str, list[int]] = {}
    for each in after:
        of_groups.setdefault(each.group, []).append(int(each.body))
    assert all(bodies == sorted({*bodies}) for bodies in of_groups.values())
    # Those of the delivery in which it was: a broker does not give half of one again.
    again = done & {each.body for each in after}
    assert len(again) < len(before) - before.index(next(each for each in before if each.body == "31"))


@pytest.mark.parametrize("kind", ["DELAY", "TRANSACTION"])
async def test_delayed_and_transactional_messages(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], kind: str
) -> None:
    topic, group = topic_name("t"), short(topic_name("g"))
    source, target = await scene(clusters, topic, group, kind)
    await grpc_produce(source.proxy.address, topic, ALL, type_=kind.lower(), delay_ms=1500)
    wanted = {str(i) for i in range(ALL) if kind == "DELAY" or i % 5 != 4}
    await until(lambda: _holds(source, topic, len(wanted)))
    before = await grpc_consume(source.proxy.address, topic, group, count=FIRST, hold=HELD, invisible_s=120)
    held = sum(not each.acknowledged for each in before)
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        told = await switched(worker, topic, held)
    judge(before, await grpc_consume(target.proxy.address, topic, group), told, wanted)


async def test_priorities(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """Each message stays in the queue of its priority, and at both sites the highest come first."""
    topic, group, levels = topic_name("t"), topic_name("g"), 3
    source, target = await clusters.pair(ClusterSpec(name="east", version="5.5.0", proxy=True), WEST)
    await create_topic(source, topic, queues=levels, attributes={"message.type": "PRIORITY"})
    await make_group(source, group)
    await grpc_produce(source.proxy.address, topic, ALL, type_="priority", levels=levels)
    await until(lambda: _holds(source, topic, ALL))
    before = await grpc_consume(source.proxy.address, topic, group, count=FIRST, hold=HELD, invisible_s=120)
    held = sum(not each.acknowledged for each in before)
    flags = ("--topics", topic, "--sync-groups", group, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        told = await switched(worker, topic, held)
    after = await grpc_consume(target.proxy.address, topic, group)
    judge(before, after, told, {str(i) for i in range(ALL)})
    stored = await raw_topic(target, topic)
    for (_, level), messages in stored.items():
        assert [int(message.content) for message in messages] == list(range(level, ALL, levels))
    for got in (before, after):
        order = [int(each.body) % levels for each in got]
        assert order == sorted(order, reverse=True)


async def _has_some(cluster: Cluster, topic: str) -> bool:
    return any((await raw_topic(cluster, topic)).values())


async def _holds(cluster: Cluster, topic: str, count: int) -> bool:
    return sum(map(len, (await raw_topic(cluster, topic)).values())) == count


@pytest.mark.parametrize(("newer", "rename"), [(False, "{topic}"), (True, "c-{topic}")], ids=["older", "newer"])
async def test_retries_come_along(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], *, newer: bool, rename: str
) -> None:
    """What was not acknowledged in time; retry topics have the names at the target that brokers read there."""
    topic, group = topic_name("t"), short(topic_name("g"))
    source, target = await scene(clusters, topic, group, "NORMAL")
    retry = f"%RETRY%{group}{'+' if newer else '_'}{topic}"
    async with configured(source, enableRetryTopicV2=str(newer).lower()):
        await grpc_produce(source.proxy.address, topic, ALL)
        before = await grpc_consume(source.proxy.address, topic, group, count=FIRST, hold=HELD, invisible_s=10)
        held = {each.body for each in before if not each.acknowledged}
        await until(lambda: _holds(source, retry, len(held)), what="they are revived")
    flags = ("--topics", topic, "--sync-groups", group, "--retry-topics", "--rename", rename, *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        told = await switched(worker, topic, 0)
    after = await grpc_consume(target.proxy.address, rename.format(topic=topic), group)
    judge(before, after, told, {str(i) for i in range(ALL)})
    assert {each.body for each in after if each.attempt > 1} == held


async def test_retries_that_are_held_come_once(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Messages that the source's broker has put into its retry topic, and whose next attempt is held."""
    topic, group = topic_name("t"), short(topic_name("g"))
    source, target = await scene(clusters, topic, group, "NORMAL")
    retry = f"%RETRY%{group}_{topic}"
    await grpc_produce(source.proxy.address, topic, ALL)
    first = await grpc_consume(source.proxy.address, topic, group, count=ALL, hold=HELD, invisible_s=10)
    assert {each.body for each in first if not each.acknowledged} == HELD
    await until(lambda: _holds(source, retry, len(HELD)), what="they are revived")
    second = await grpc_consume(
        source.proxy.address, topic, group, count=len(HELD), hold={"7", "31"}, invisible_s=120
    )
    assert {each.body: each.attempt for each in second} == dict.fromkeys(HELD, 2)
    flags = ("--topics", topic, "--sync-groups", group, "--retry-topics", *SYNC_QUICKLY)
    async with Worker(source, target, tmp_path, *flags) as worker:
        told = await in_flight(worker, retry, 2)
        assert (told["to_retry_topic"], told["acknowledged_after"]) == (2, 0)
        await ready(worker)
        for _ in range(2):
            done = await asked(worker, "POST", "failover", {"drain_timeout": 20})
            assert done["problems"] == []
    after = await grpc_consume(target.proxy.address, topic, group)
    assert sorted((each.body, each.attempt) for each in after) == [("31", 3), ("7", 3)]


async def test_retries_of_copies_come_back(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """What brokers make of a copy that is tried again is born where they do that, and goes along at a failback."""
    topic, group = topic_name("t"), short(topic_name("g"))
    source, target = await scene(clusters, topic, group, "NORMAL")
    retry = f"%RETRY%{group}_{topic}"
    await grpc_produce(source.proxy.address, topic, 20)
    flags = ("--topics", topic, "--sync-groups", group, "--retry-topics", *SYNC_QUICKLY)
    assert len(await grpc_consume(source.proxy.address, topic, group, count=10)) == 10
    async with Worker(source, target, tmp_path / "to", *flags) as worker:
        await switched(worker, topic, 0)
    before = await grpc_consume(
        target.proxy.address, topic, group, hold={"15", "17", "18"}, invisible_s=10, count=10
    )
    held = {each.body for each in before if not each.acknowledged}
    await until(lambda: _holds(target, retry, len(held)), what="they are revived")
    async with Worker(target, source, tmp_path / "fro", *flags) as worker:
        await switched(worker, topic, 0)
        assert (await asked(worker, "GET", "readiness"))["verified"]
        assert worker.metric("audit_differences_total") == 0
    after = await grpc_consume(source.proxy.address, topic, group)
    assert {each.body: each.attempt > 1 for each in after} == dict.fromkeys(held, True)
