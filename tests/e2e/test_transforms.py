"""Transforms on real brokers: what they change arrives so, what they leave out does not, nothing else is lost."""

from __future__ import annotations

import json
import shlex
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from replicator.protocol import properties
from tests.support.clusters import ClusterPool
from tests.support.command import run
from tests.support.group import EAST, WEST, caught_up, producing, share, workers_of
from tests.support.guide import Guide
from tests.support.history import check
from tests.support.packages import TRANSFORMS_PAGE, example, install
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import Producer, connected, create_topic, raw_topic, read_topic, send
from tests.support.worker import Worker, until

pytestmark = pytest.mark.timeout(300)

_MORE = """
from pathlib import Path

class PickyConfig(BaseModel):
    until: Path

class Picky(Transform[PickyConfig]):
    config = PickyConfig

    def apply(self, message):
        if message.properties["KEYS"] == "poison" and not self.settings.until.exists():
            raise RuntimeError("it is poison")
        return message

class Counted(Transform):
    def apply(self, message):
        if message.properties["TAGS"] == "tag0":
            return None
        return replace(message, properties=message.properties | {"seen": message.properties["n"]})
"""


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the documentation and some more, as installed for all workers."""
    entries = {"mask": "Mask", "drop-tests": "DropTests", "picky": "Picky", "counted": "Counted"}
    install(tmp_path / "site", "transforms_of_others", example(TRANSFORMS_PAGE) + _MORE, "transforms", entries)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))


async def _orders(route: Scene, start: int, stop: int) -> None:
    """JSON into queue 0, half of it compressed; each fifth is a test."""
    async with connected(route.source) as client:
        for first in range(start, stop, 10):
            packed = first % 20 == 0
            batch = []
            for i in range(first, first + 10):
                body = json.dumps({"card": f"4711-{i}", "n": i}).encode()
                told = {"KEYS": f"k{i}", "TAGS": "test" if i % 5 == 0 else "order", "other": "x"}
                batch.append((zlib.compress(body) if packed else body, told))
            await send(client, "east-a", route.topic, 0, batch, sys_flag=0x301 if packed else 0, flag=3)


async def test_they_change_and_leave_out(scene: SceneOf) -> None:
    """Body, tags and nothing else; offsets are translated, what is left out counts, a restart repeats nothing."""
    async with scene(queues=1) as route:
        topic = route.topic
        await _orders(route, 0, 100)
        flags = ("--transforms", "drop-tests,mask?field=card&with=%2C")
        async with route.worker(*flags) as worker:
            await worker.caught_up(topic, 80)
            assert worker.queues(topic)[0]["skipped"] == {"transform": 20}
            assert worker.ask("GET", "/connectors/route/config")[1]["transforms"] == list(flags[1].split(",", 1))
            place = f"topic={topic}&broker=east-a&queue=0"
            there = {"topic": topic, "broker": "west-a", "queue": 0, "offset": 79}
            await until(lambda: worker.ask("GET", f"/connectors/route/where?{place}&offset=99") == (200, there))
            assert worker.ask("GET", f"/connectors/route/where?{place}&offset=95")[0] == 404
            await worker.kill()
            await _orders(route, 100, 200)
            await worker.start()
            await worker.caught_up(topic, 80)
            assert worker.topic(topic)["duplicates"] == 0
            labels = f'connector="route",reason="transform",source="east",target="west",topic="{topic}"'
            assert f"messages_skipped_total{{{labels}}}" in worker.get("/metrics")
        copies = (await raw_topic(route.target, topic))["west-a", 0]
        told = [properties.decode(m.properties) for m in copies]
        assert [t["KEYS"] for t in told] == [f"k{i}" for i in range(200) if i % 5]
        assert {(t["TAGS"], t["other"], m.flag) for t, m in zip(told, copies, strict=True)} == {("masked", "x", 3)}
        bodies = [zlib.decompress(m.body[4:]) if m.sys_flag & 1 else m.body[4:] for m in copies]
        assert [json.loads(body) for body in bodies] == [{"card": ",", "n": i} for i in range(200) if i % 5]
        assert {m.sys_flag & 0x701 for m in copies} == {0, 0x301}


async def test_what_the_page_says_to_type(scene: SceneOf) -> None:
    """A route with both, and another configuration of one of them while it runs."""
    page = Guide(TRANSFORMS_PAGE)
    words = shlex.split(page.take("replicator --source A --target B"))
    async with scene(queues=1) as route:
        await _orders(route, 0, 10)
        async with route.worker(*words[words.index("--transforms") :]) as worker:
            await worker.caught_up(route.topic, 8)
            await run(worker, *shlex.split(page.take("replicator connectors update"))[1:])
            await until(lambda: '"reason": "started again"' in worker.log)
            await _orders(route, 10, 20)
            await worker.caught_up(route.topic, 18)
        copies = (await raw_topic(route.target, route.topic))["west-a", 0]
        cards = [json.loads(zlib.decompress(m.body[4:]) if m.sys_flag & 1 else m.body[4:])["card"] for m in copies]
    assert cards[:8] == ["*"] * 8
    assert cards[8:] == ["x"] * 10, "those of tests are not left out any more"
    assert [line for line in page.left if line.startswith("replicator")] == []


@pytest.mark.parametrize("policy", ["fail", "wait", "skip", "dead-letter"])
async def test_one_that_raises(
    scene: SceneOf, topic_name: Callable[[str], str], tmp_path: Path, policy: str
) -> None:
    """As if the target had refused the message: each policy does what it says, and the other queue goes on."""
    letters, fixed = topic_name("letters"), tmp_path / "fixed"
    async with scene(queues=2) as route:
        topic = route.topic
        async with connected(route.source) as client:
            for keys in ("a", "poison", "b"):
                await send(client, "east-a", topic, 0, [(keys.encode(), {"KEYS": keys})])
            await send(client, "east-a", topic, 1, [(b"c", {"KEYS": "c"})] * 10)
        flags = ("--on-error", policy, "--dead-letter-topic", letters, "--transforms", f"picky?until={fixed}")
        async with route.worker(*flags) as worker:
            if policy in ("fail", "wait"):
                state = {"fail": "FAILED", "wait": "WAITING"}[policy]
                await until(lambda: worker.topic(topic).get("state") == state)
                queue = next(q for q in worker.queues(topic) if q["source"]["queue"] == 0)
                assert queue["position"] == 1
                refused = f"message at offset 1 of {topic}/east-a/0 is refused by a transform"
                assert f"{refused}: 'picky' raised RuntimeError: it is" in queue["reason"]
                await until(lambda: _copied(worker, topic, 1) == 10)
                if policy == "fail":
                    return
                fixed.touch()
                await worker.caught_up(topic, 13)
            else:
                await worker.caught_up(topic, 12)
                reason = {"skip": "error"}.get(policy, policy)
                assert {r: n for q in worker.queues(topic) for r, n in q["skipped"].items()} == {reason: 1}
        copies = (await raw_topic(route.target, topic))["west-a", 0]
        assert [m.body[4:] for m in copies] == ([b"a", b"poison", b"b"] if fixed.exists() else [b"a", b"b"])
        if policy == "dead-letter":
            ((letter,),) = (await raw_topic(route.target, letters)).values()
            told = properties.decode(letter.properties)["__RPL_REASON"]
            assert (letter.body[4:], told) == (b"poison", "'picky' raised RuntimeError: it is poison")


def _copied(worker: Worker, topic: str, queue: int) -> int:
    return sum(q["copied"] for q in worker.queues(topic) if q["source"]["queue"] == queue)


async def test_a_body_that_cannot_be_decompressed(scene: SceneOf) -> None:
    """It is refused by policy; the next message goes through."""
    async with scene(queues=1) as route:
        async with connected(route.source) as client:
            await send(client, "east-a", route.topic, 0, [(b"?", {"KEYS": "lz4"})], sys_flag=0x101)
            await send(client, "east-a", route.topic, 0, [(b"{}", {"KEYS": "plain"})])
        async with route.worker("--on-error", "skip", "--transforms", "drop-tests") as worker:
            await worker.caught_up(route.topic, 1)
            assert worker.queues(route.topic)[0]["skipped"] == {"error": 1}


async def test_owners_are_killed_in_the_middle(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Under load: nothing is lost, twice or out of order, and all that was copied is counted once."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=4)
    producer = Producer(source, topic, per_second=2000)
    flags = ("--topics", topic, "--transforms", "counted")
    quick = ("--heartbeat-interval", "0.3", "--session-timeout", "1.5")
    async with (
        producing([producer]),
        workers_of(source, target, tmp_path, 2, *flags, *quick) as workers,
    ):
        await until(lambda: share(workers, 1), what="one has it")
        for worker in workers:  # what a worker copies before it was ever told is not known to anybody
            await until(partial(_counts_copies, worker), what="the group sees some copies")
        for _ in range(3):
            owner = await until(lambda: next((worker for worker in workers if worker.running), None))
            (other,) = (worker for worker in workers if worker is not owner)
            await until(partial(owner.has_copied, topic, 500))
            await owner.kill()
            await until(partial(other.has_copied, topic, 500), what="the other goes on")
            await owner.start()
            await until(lambda: share(workers, 1), what="both are there again")
        await producer.finish()
        await until(partial(caught_up, workers, topic), what="all is copied")
        originals = [m for m in await read_topic(source, topic) if m.tags != "tag0"]
        await until(partial(_group_counts, workers, topic, len(originals)), what="all are counted")
        assert sum(worker.topic(topic).get("duplicates", 0) for worker in workers) == 0
    copies = await read_topic(target, topic)
    verdict = check(originals, copies, ignore=lambda name: name == "seen")
    assert verdict.clean, verdict.report()
    assert all(copy.properties["seen"] == copy.properties["n"] for copy in copies)
    assert verdict.copies == len(originals) < producer.acknowledged


def _counts_copies(worker: Worker) -> bool:
    return any(topic["copied"] for topic in worker.ask("GET", "/connectors/route/status")[1]["topics"])


def _group_counts(workers: list[Worker], topic: str, count: int) -> bool:
    for worker in workers:
        (told,) = worker.ask("GET", "/connectors/route/status")[1]["topics"]
        assert told["topic"] == topic
        assert told["copied"] <= count
        if told["copied"] != count:
            return False
    return True


async def test_what_is_not_there_is_refused(scene: SceneOf) -> None:
    """At the start and over REST: each mistake with field, value and what is installed, all at once."""
    async with scene(queues=1) as route:
        unknown = route.worker("--transforms", "drop-tests,none", at="unknown")
        await unknown.start(ready=False)
        assert await unknown.wait() == 78
        assert "transforms = 'none' is not installed: there are counted, drop-tests, mask, picky\n" in unknown.log
        waiting = route.worker("--transforms", "drop-tests,counted", "--sync", "pending", at="waiting")
        await waiting.start(ready=False)
        assert await waiting.wait() == 78
        assert (
            "transforms = 'counted' takes no messages that wait at their broker, and sync has pending"
            in waiting.log
        )
        assert "drop-tests" not in waiting.log
        async with route.worker() as worker:
            await until(lambda: worker.running)
            wrong = {"topics": route.topic, "rate_messages": -1, "transforms": "none,mask"}
            status, refused = worker.ask("POST", "/connectors/x", wrong)
            assert status == 400
            assert [line.split(":")[0] for line in refused["errors"]] == [
                "rate_messages = -1",
                "transforms = 'none' is not installed",
                "transforms = 'mask'",
            ]
            listed = {plugin["class"]: plugin for plugin in worker.ask("GET", "/plugin/list")[1]}
            assert listed["mask"] == {"class": "mask", "type": "TRANSFORM", "version": "1.2"}
            (field, instead) = worker.ask("GET", "/plugin/config?name=mask")[1]
            assert (field["name"], field["required"], instead["name"], instead["default"]) == (
                "field",
                True,
                "with",
                "*",
            )
            asked = {"topics": route.topic, "transforms": "drop-tests"}
            assert worker.ask("PUT", "/connectors/route", asked)[0] == 200
            await _orders(route, 0, 10)
            await until(lambda: worker.topic(route.topic).get("skipped") == 2)
