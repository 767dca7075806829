"""What is wrong at the target is named while the route runs; what is right is verified, and nothing is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replicator.protocol.properties import BROKER_MADE, decode, without
from replicator.sandbox import ClusterSpec
from tests.e2e.test_recovery import OLD
from tests.support.alerts import fires, rests, watching
from tests.support.packages import TRANSFORMS_PAGE, example, install
from tests.support.planted import Store
from tests.support.readiness import changed
from tests.support.scene import TARGET, Scene, SceneOf
from tests.support.traffic import Producer, connected, create_topic, judge, raw_topic, send
from tests.support.worker import Worker, until

#: Messages of each of four queues.
EACH = 20
#: Seconds in which what was planted must be named; what was verified before is read again after one minute.
SOON = 110.0

Found = set[tuple[int, str, int | None, int | None]]


def named(worker: Worker, topic: str) -> Found:
    """(queue, kind, source offset, target offset) of all differences that the status has."""
    return {
        (queue["source"]["queue"], each["kind"], each["source"], each["target"])
        for queue in worker.queues(topic)
        for each in queue["latest_differences"]
    }


def verified(worker: Worker, topic: str) -> bool:
    """Whether all that was copied is verified."""
    queues = worker.queues(topic)
    return bool(queues) and all(
        queue["verified_to"] == queue["position"] and not queue["verified_age_seconds"] for queue in queues
    )


async def copy_once_more(route: Scene, queue_id: int, offsets: Iterable[int]) -> None:
    """As a client would that has read the copies."""
    copies = (await raw_topic(route.target, route.topic))["west-a", queue_id]
    again = [
        (copies[offset].body[4:], decode(without(copies[offset].properties, BROKER_MADE))) for offset in offsets
    ]
    async with connected(route.target) as client:
        await send(client, "west-a", route.topic, queue_id, again)


@pytest.mark.parametrize("spec", [TARGET, OLD], ids=lambda spec: str(spec.version))
async def test_what_is_planted_is_named(scene: SceneOf, tmp_path: Path, spec: ClusterSpec) -> None:
    """In the store: a byte, a swapped pair, a message of another queue. By a client: a twin, a swapped pair."""
    async with scene(target=spec, mistreated=(spec,)) as route, route.worker() as worker:
        topic, store = route.topic, Store(route.target)
        await until(lambda: worker.running, what="it runs")
        await route.produce(4 * EACH)
        await worker.caught_up(topic, 4 * EACH)
        store.flip(topic, 0, 10, after=b"UNIQ_KEY\x01")
        store.swap(topic, 1, 5, 9)
        store.put_entry(topic, 2, 7, store.entry(topic, 0, 7))
        await copy_once_more(route, 3, [3])
        await copy_once_more(route, 3, [6, 5])
        expected: Found = {
            *((0, "properties", 10, 10), (1, "reordered", 5, 5), (1, "reordered", 9, 9)),
            *((2, "missing", 7, 7), (2, "misplaced", None, 7)),
            *((3, "duplicate", 3, EACH), (3, "duplicate", 6, EACH + 1), (3, "duplicate", 5, EACH + 2)),
        }
        await until(lambda: named(worker, topic) >= expected, seconds=SOON, what=str(expected))
        await until(lambda: verified(worker, topic), what="the rest verified")
        assert named(worker, topic) == expected
        assert worker.metric("audit_differences_total") == len(expected)
        await _reports(worker, topic, expected)


async def _reports(worker: Worker, topic: str, expected: Found) -> None:
    """In the audit log, in the log, and by readiness."""
    entries = [json.loads(line) for line in (worker.store / "audit.jsonl").read_text().splitlines()]
    events = [each for each in entries if each.get("action") == "difference"]
    places = {
        (int(e["queue"].rpartition("/")[2]), e["kind"], e["source_offset"], e["target_offset"]) for e in events
    }
    assert places == expected
    assert sum(event["event"] == "difference at the target" for event in worker.events) == len(expected)
    await until(lambda: not _readiness(worker)["ready"])
    found = _readiness(worker)
    assert [
        r for r in found["reasons"] if f"topic {topic}: 8 messages at the target are not as they were sent" in r
    ]
    (audit,) = found["verified"]
    assert audit["differences"] == {"duplicate": 3, "misplaced": 1, "missing": 1, "properties": 1, "reordered": 2}


def _readiness(worker: Worker) -> Any:
    return worker.ask("GET", "/connectors/route/readiness")[1]


async def test_it_is_switched_off_and_on_under_load_at_two_workers(scene: SceneOf) -> None:
    """By either of them, while each copies a topic: nothing is repeated, lost or stuck, and all is verified."""
    async with scene() as route:
        topics = (route.topic, f"{route.topic}-too")
        await create_topic(route.target, topics[1], queues=4)
        await create_topic(route.source, topics[1], queues=4)
        flags = ("--topics", ",".join(topics))
        async with (
            route.worker(*flags, at="one") as one,
            route.worker(*flags, at="two") as two,
            Producer(route.source, topics[0], per_second=200) as first,
            Producer(route.source, topics[1], per_second=200) as second,
        ):
            workers = (one, two)
            await until(lambda: all(worker.get("/status")["topics"] for worker in workers), what="both copy")
            for number, audit in enumerate(("off", "on") * 2):
                before = _positions(workers, topics)
                await changed(workers[number % 2], audit=audit)
                await until(partial(_go_on, workers, topics, before), what=f"all go on, audit {audit}")
            await asyncio.gather(first.finish(), second.finish())
            for topic in topics:
                await until(partial(_arrived, route, topic), what=f"all of {topic}")
                verdict = await judge(route.source, route.target, topic)
                assert verdict.clean, verdict.report()
                await until(partial(_verified, workers, topic), seconds=SOON, what="all verified")
                assert [named(worker, topic) for worker in workers] == [set(), set()]
            events = [event for worker in workers for event in worker.events]
            assert not [event for event in events if event["level"] in ("error", "critical")]


def _positions(workers: Iterable[Worker], topics: Iterable[str]) -> dict[tuple[str, int], int]:
    """How far each queue that runs was copied, by topic and number."""
    queues = [(topic, queue) for worker in workers for topic in topics for queue in worker.queues(topic)]
    running = [(topic, queue) for topic, queue in queues if queue["state"] == "RUNNING"]
    return {(topic, queue["source"]["queue"]): queue["position"] or 0 for topic, queue in running}


def _go_on(workers: Iterable[Worker], topics: Iterable[str], before: dict[tuple[str, int], int]) -> bool:
    now = _positions(workers, topics)
    return len(now) == 8 and all(at > before.get(queue, 0) for queue, at in now.items())


async def _arrived(route: Scene, topic: str) -> bool:
    there, here = [await raw_topic(cluster, topic) for cluster in (route.target, route.source)]
    return sum(map(len, there.values())) >= sum(map(len, here.values()))


def _verified(workers: Iterable[Worker], topic: str) -> bool:
    return any(verified(worker, topic) for worker in workers)


async def test_alerts(scene: SceneOf, tmp_path: Path) -> None:
    """Of a difference, and of copies that cannot be read back; the latter rests when they are."""
    async with scene(mistreated=(TARGET,), queues=1) as route, route.worker() as worker:
        (broker,) = route.target.brokers
        await until(lambda: worker.running, what="it runs")
        async with watching(tmp_path / "prometheus", [worker]) as prometheus:
            await route.produce(EACH)
            await worker.caught_up(route.topic, EACH)
            Store(route.target).flip(route.topic, 0, 10, after=b"UNIQ_KEY\x01")
            broker.pause()
            try:
                await fires(prometheus, "AuditBehind")
            finally:
                broker.resume()
            await fires(prometheus, "AuditDifferences")
            await rests(prometheus, "AuditBehind")


async def test_what_is_right_is_verified(scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a filter, a transform, a new name and messages of others; over a kill, a drain and other settings."""
    entries = {"mask": "Mask", "drop-tests": "DropTests"}
    install(tmp_path / "site", "transforms_of_others", example(TRANSFORMS_PAGE), "transforms", entries)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    flags = ("--tags", "tag0,tag1", "--transforms", "mask?field=card&with=x", "--rename", "{topic}_copy")
    async with scene(queues=1) as route, route.worker(*flags) as worker:
        topic = route.topic
        async with connected(route.source) as client:
            for start in range(0, 60, 20):
                batch = [
                    (b'{"card": "%d"}' % i, {"KEYS": f"k{i}", "TAGS": f"tag{i % 3}"})
                    for i in range(start, start + 20)
                ]
                await send(client, "east-a", topic, 0, batch)
                await worker.caught_up(topic, 0)
                async with connected(route.target) as other:
                    await send(other, "west-a", f"{topic}_copy", 0, [(b"somebody's", {"KEYS": "x"})])
            await until(lambda: verified(worker, topic), what="verified")
            first = worker.topic(topic)
            assert (first["copied"], first["verified"], first["unverified"]) == (40, 40, 0)
            await worker.kill()
            await send(client, "east-a", topic, 0, [(b'{"card": "1"}', {"KEYS": "k", "TAGS": "tag0"})])
            await worker.start()
            await until(lambda: worker.topic(topic).get("verified") == 41 and verified(worker, topic))
            assert await worker.drain() == 0
        assert not [event for event in worker.events if event["event"] == "difference at the target"]
        async with route.worker("--audit", "off", *flags[2:]) as unaudited:
            await unaudited.caught_up(topic, 0)
            assert unaudited.queues(topic)[0]["verified_to"] is None
    assert '"difference"' not in (worker.store / "audit.jsonl").read_text()
