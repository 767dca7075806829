"""What goes wrong is detected, counted exactly, shown, and handled by the stated policy."""

from __future__ import annotations

import json
import operator
import re
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replicator.protocol import properties
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.alerts import fires, watching
from tests.support.clusters import ClusterPool
from tests.support.narrow import NARROW, NARROW_49, TINY_FILES, expire, oldest
from tests.support.scene import TARGET, SceneOf
from tests.support.traffic import (
    configured,
    connected,
    judge,
    raw_topic,
    remove_topic,
    send,
)
from tests.support.worker import Worker, until


async def _too_large(source: Cluster, topic: str) -> None:
    """Ten small messages, a large one, ten small ones, in queue 0; others in queue 1."""
    async with connected(source) as client:
        small = [(b"small", {"KEYS": str(i)}) for i in range(10)]
        await send(client, "east-a", topic, 0, small)
        await send(client, "east-a", topic, 0, [(b"L" * 100_000, {"KEYS": "large", "TAGS": "big"})])
        await send(client, "east-a", topic, 0, small)
        await send(client, "east-a", topic, 1, small)


def _left_waiting(worker: Worker) -> set[str]:
    """The queues that the log says wait no longer."""
    lines = [json.loads(line) for line in worker.log.splitlines() if line.startswith("{")]
    return {line["queue"] for line in lines if line["event"] == "no longer waiting"}


def _task(worker: Worker) -> dict[str, Any]:
    """The task of the topic, without its owner."""
    (task,) = worker.ask("GET", "/connectors/route/tasks")[1]
    return {name: task[name] for name in ("id", "state", "trace")}


@pytest.mark.parametrize("spec", [NARROW, NARROW_49], ids=["5.5.0", "4.9.7"])
@pytest.mark.parametrize("policy", ["fail", "skip", "wait", "dead-letter"])
async def test_a_message_larger_than_the_target_takes(
    scene: SceneOf, topic_name: Callable[[str], str], policy: str, spec: ClusterSpec
) -> None:
    """Each policy does what it says, and the other queue goes on."""
    letters = topic_name("letters")
    async with scene(target=spec, mistreated=(spec,), queues=2) as route:
        topic = route.topic
        await _too_large(route.source, topic)
        async with route.worker("--on-error", policy, "--dead-letter-topic", letters) as worker:
            state = {"fail": "FAILED", "wait": "WAITING"}.get(policy)
            if state is not None:
                await until(lambda: worker.topic(topic).get("state") == state)
                stopped, other = sorted(worker.queues(topic), key=lambda q: int(q["source"]["queue"]))
                assert stopped["position"] == 10
                assert f"message at offset 10 of {topic}/east-a/0" in stopped["reason"]
                assert other["copied"] == 10
                trace = stopped["reason"] if policy == "fail" else None
                await until(lambda: _task(worker) == {"id": topic, "state": state, "trace": trace})
                async with connected(route.source) as client:
                    await send(client, "east-a", topic, 1, [(b"others go on", {})] * 1000)
                await until(lambda: worker.has_copied(topic, 1020))
                stopped, other = sorted(worker.queues(topic), key=lambda q: int(q["source"]["queue"]))
                assert (stopped["state"], stopped["position"], other["copied"]) == (state, 10, 1010)
                if policy == "wait":  # the operator raises the limit, and it goes on by itself
                    async with configured(route.target, maxMessageSize=4194304):
                        await worker.caught_up(topic, 1031)
                        assert _left_waiting(worker) == {f"{topic}/east-a/0"}
                return
            await worker.caught_up(topic, 30)
            reason = {"skip": "error"}.get(policy, policy)
            assert {r: n for q in worker.queues(topic) for r, n in q["skipped"].items()} == {reason: 1}
        copies = (await raw_topic(route.target, topic))["narrow-a", 0]
        assert len(copies) == 20
        if policy == "dead-letter":
            ((letter,),) = (await raw_topic(route.target, letters)).values()
            told = properties.decode(letter.properties)
            assert told["__RPL_SOURCE"].startswith("east/east-a/0/10/")
            assert (told["__RPL_TOPIC"], told["__RPL_SIZE"], told["__RPL_OMITTED"]) == (topic, "100000", "body")
            assert (told["KEYS"], told["TAGS"]) == ("large", "big")
            assert "size" in told["__RPL_REASON"] or "13" in told["__RPL_REASON"]


@pytest.mark.parametrize("policy", ["wait", "dead-letter"])
async def test_properties_that_are_too_long_with_our_own(
    scene: SceneOf, topic_name: Callable[[str], str], policy: str
) -> None:
    """32,767 bytes are possible; the message before arrives, the one behind it where the policy goes on."""
    letters = topic_name("letters")
    async with scene(source=ClusterSpec(name="east", version="5.5.0"), queues=1) as route:
        topic = route.topic
        async with connected(route.source) as client:
            for told in ({"KEYS": "a"}, {"KEYS": "b", "p": "x" * 32_740}, {"KEYS": "c"}):
                await send(client, "east-a", topic, 0, [(b"body", told)])
        async with route.worker("--on-error", policy, "--dead-letter-topic", letters) as worker:
            if policy == "wait":
                await until(lambda: worker.topic(topic).get("state") == "WAITING")
                assert f"message at offset 1 of {topic}/east-a/0 is refused" in worker.topic(topic)["reason"]
            else:
                await worker.caught_up(topic, 2)
            (queue,) = worker.queues(topic)
            assert (queue["position"], queue["skipped"]) == ((1, {}) if policy == "wait" else (3, {policy: 1}))
        copies = (await raw_topic(route.target, topic))["west-a", 0]
        arrived = [properties.decode(message.properties)["KEYS"] for message in copies]
        if policy == "wait":
            assert arrived == ["a"]
            return
        assert arrived == ["a", "c"]
        ((letter,),) = (await raw_topic(route.target, letters)).values()
        told = properties.decode(letter.properties)
        assert told["__RPL_OMITTED"] == "properties"
        assert letter.body[4:] == b"body"


async def assert_found(worker: Worker, topic: str, *, first: int, last: int) -> None:
    """Where foreign messages are, and who has written them, is said by all that an operator looks at."""
    (queue,) = worker.queues(topic)
    assert queue["foreign_offsets"] == {"first": first, "last": last}
    event = "foreign messages in a target queue"
    (told,) = await until(lambda: [each for each in worker.events if each["event"] == event])
    assert (told["level"], told["target"], told["last"]) == ("warning", "west-a/0", last)
    assert told["born_host"].startswith("127.0.0.1:")
    place = f"topic={topic}&broker=west-a&queue=0&offset={first}&side=target"
    status, refused = worker.ask("GET", f"/connectors/route/where?{place}")
    assert status == 404
    assert f"offset {first} of west-a/0 is not a copy of this route: written by 127.0.0.1:" in str(refused)
    assert "KEYS=0" in str(refused)


async def test_a_foreign_producer_in_a_mapped_queue(scene: SceneOf) -> None:
    """Its messages are counted and left alone; the offset map stays exact; a restart repeats nothing."""
    async with scene(queues=1) as route:
        topic = route.topic
        await route.produce(100)
        async with route.worker(at="one") as worker:
            await worker.caught_up(topic, 100)
            async with connected(route.target) as client:
                await send(client, "west-a", topic, 0, [(b"foreign", {"KEYS": str(i)}) for i in range(7)])
            await route.produce(100, start=100)
            await worker.caught_up(topic, 200)
            await until(lambda: worker.topic(topic)["foreign"] == 7)
            await assert_found(worker, topic, first=100, last=106)
            assert await worker.drain() == 0
        async with connected(route.target) as client:
            await send(client, "west-a", topic, 0, [(b"foreign", {"KEYS": str(i)}) for i in range(50)])
        async with route.worker(at="two") as worker:
            await route.produce(100, start=200)
            await worker.caught_up(topic, 100)
            await until(lambda: worker.topic(topic)["foreign"] == 57)
            assert worker.topic(topic)["duplicates"] == 0
        verdict = await judge(route.source, route.target, topic)
        assert not verdict.lost
        assert not verdict.duplicated
        assert not verdict.out_of_order
        assert len(verdict.extra) == 57


@pytest.mark.parametrize(
    ("spec", "settings", "code"),
    [
        (TARGET, {"brokerPermission": 4}, "NO_PERMISSION (16)"),
        (NARROW_49, {"brokerRole": "SLAVE"}, "SERVICE_NOT_AVAILABLE (14)"),
    ],
    ids=["no permission", "not available"],
)
async def test_the_target_takes_nothing_for_a_while(
    scene: SceneOf, spec: ClusterSpec, settings: dict[str, object], code: str
) -> None:
    """Shown while it lasts, and over by itself when it is.

    Brokers look at their permission for ordered topics only. One of 4.9.7 that takes itself for a slave answers as
    one of any version whose disk passes the limits of its configuration.
    """
    async with scene(target=spec, mistreated=(spec,), queues=2, order=True) as route:
        topic = route.topic
        await route.produce(100)
        async with route.worker() as worker:
            await worker.caught_up(topic, 100)
            async with configured(route.target, **settings):
                await route.produce(100, start=100)
                await until(lambda: worker.topic(topic)["state"] == "WAITING")
                assert code in worker.topic(topic)["reason"]
                assert worker.topic(topic)["copied"] == 100
                with pytest.raises(OSError, match="503"):
                    worker.get("/health/ready")
            await worker.caught_up(topic, 200)
            assert worker.get("/health/ready")["ready"]
        await route.assert_clean(200)


async def test_a_busy_target(scene: SceneOf) -> None:
    """Answers of 'busy' are waited out in order, for a moment or for longer, and it is said."""
    async with scene(mistreated=(TARGET,), queues=8) as route:
        topic = route.topic
        await route.produce(4000)
        async with route.worker() as worker:
            await worker.caught_up(topic, 4000)

            def all_tried_again(before: list[int]) -> bool:
                return all(map(operator.lt, before, retries()))

            def retries() -> list[int]:
                return [int(queue["retries"]) for queue in worker.queues(topic)]

            def all_wait() -> bool:
                return {queue["state"] for queue in worker.queues(topic)} == {"WAITING"}

            for start in (4000, 11_000, 18_000):
                before = retries()
                # The pool of buffers that this asks for is empty: as with one in use, the broker has no room now.
                async with configured(route.target, transientStorePoolEnable="true"):
                    await route.produce(7000, start=start)
                    await until(partial(all_tried_again, before))
                    if start == 18_000:
                        await until(all_wait)
                    assert all("SYSTEM_BUSY (2)" in queue["reason"] for queue in worker.queues(topic))
                    assert worker.topic(topic)["copied"] == start
                await worker.caught_up(topic, start + 7000)
        await route.assert_clean(25_000)


async def test_the_target_topic_is_deleted_while_it_runs(scene: SceneOf) -> None:
    """It is made again and filled with all that the source still has."""
    async with scene(queues=2) as route:
        await route.produce(200)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 200)
            await remove_topic(route.target, route.topic)
            await route.produce(100, start=200)
            await worker.caught_up(route.topic, 500)
        await route.assert_clean()


async def test_the_disk_of_the_target_is_full_for_a_while(clusters: ClusterPool, scene: SceneOf) -> None:
    """The broker can make no more files: shown while it lasts, over by itself, everything once."""
    spec = ClusterSpec(name="full", version="5.3.3", properties=TINY_FILES)
    async with clusters.fresh(spec) as target, scene(target=target, queues=2) as route:
        topic = route.topic
        await route.produce(200)
        async with route.worker() as worker:
            await worker.caught_up(topic, 200)
            # Files of up to half of a commit log file: to the broker, what a full disk is.
            _, most = resource.prlimit(target.brokers[0].pid, resource.RLIMIT_FSIZE)
            resource.prlimit(target.brokers[0].pid, resource.RLIMIT_FSIZE, (2**19, most))
            await route.produce(4000, start=200, size=1000)
            await until(lambda: worker.topic(topic)["state"] == "WAITING")
            assert "create mapped file failed" in worker.topic(topic)["reason"]
            assert "its disk may be full" in worker.topic(topic)["reason"]
            with pytest.raises(OSError, match="503"):
                worker.get("/health/ready")
            assert worker.topic(topic)["copied"] < 4200
            resource.prlimit(target.brokers[0].pid, resource.RLIMIT_FSIZE, (most, most))
            await worker.caught_up(topic, 4200)
            assert worker.topic(topic)["duplicates"] == 0
            assert worker.get("/health/ready")["ready"]
        await route.assert_clean(4200)


@pytest.mark.parametrize("spec", [NARROW, NARROW_49], ids=["5.5.0", "4.9.7"])
async def test_retention_overtook_the_position(scene: SceneOf, spec: ClusterSpec, tmp_path: Path) -> None:
    """The gap is counted to the message, and alerted of; `fail` stands still there, `skip` goes on behind it.

    Behind the other tests of these clusters, since brokers delete nothing in their first minute.
    """
    async with scene(source=spec, mistreated=(spec,), queues=1) as route:
        topic = route.topic
        await route.produce(500, size=400)
        async with route.worker() as worker:
            await worker.caught_up(topic, 500)
            await worker.drain()
        await route.produce(8000, size=400, start=500)
        least = await expire(route.source, topic, before=500)
        async with route.worker("--on-gap", "fail") as worker:
            await until(lambda: worker.topic(topic).get("state") == "FAILED")
            told = re.search(r"(\d+) messages at offsets 500 to (\d+)", worker.topic(topic)["reason"])
            assert told
            gap, last = map(int, told.groups())
            assert gap == last - 499
            assert least <= last + 1 <= await oldest(route.source, topic)
            assert worker.topic(topic)["copied"] == 0
            # Only here: the next worker's metrics leave out what it knows by the shared state that others counted.
            labels = f'connector="route",source="narrow",target="west",topic="{topic}"'
            assert f"gap_messages_total{{{labels}}} {gap}.0" in worker.get("/metrics")
            async with watching(tmp_path / "prometheus", [worker]) as prometheus:
                await fires(prometheus, "SourceGap")
        async with route.worker() as worker:

            def all_accounted_for() -> bool:
                row = worker.topic(topic)
                return bool(row.get("gap_messages", 0) + row.get("copied", 0) == 8000)

            await until(all_accounted_for)
            skipped = worker.topic(topic)["gap_messages"]
            assert last + 1 <= 500 + skipped <= await oldest(route.source, topic)
        copies = (await raw_topic(route.target, topic))["west-a", 0]
        assert len(copies) == 8500 - skipped
