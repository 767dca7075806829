"""What a route leaves out, where it begins, and how fast it may go."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from replicator.protocol import properties
from replicator.sandbox import Cluster, ClusterSpec
from replicator.sandbox.spec import VERSIONS
from tests.support.clusters import ClusterPool
from tests.support.traffic import create_topic, produce, raw_topic, topics_of
from tests.support.worker import Worker, until

SOURCE = ClusterSpec(name="east", version="5.3.3")
TARGET = ClusterSpec(name="west", version="5.3.3")


async def _numbers(cluster: Cluster, topic: str) -> list[int]:
    found = await raw_topic(cluster, topic)
    return sorted(int(properties.decode(m.properties)["n"]) for messages in found.values() for m in messages)


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (("--tags", "tag1,tag2"), lambda n: n % 3 in (1, 2)),
        (("--sql", "n >= 100 AND n < 300"), lambda n: 100 <= n < 300),
    ],
    ids=["tags", "sql"],
)
async def test_filters(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    flags: tuple[str, ...],
    wanted: Callable[[int], bool],
) -> None:
    """Exactly the selected messages, the rest counted; nothing twice after a kill -9 and a restart."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t").replace("[", "-").replace("]", "-")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 600)
    selected = [n for n in range(600) if wanted(n)]
    async with Worker(source, target, tmp_path, "--topics", topic, *flags) as worker:
        await worker.caught_up(topic, len(selected))
        assert worker.topic(topic)["skipped"] == 600 - len(selected)
        await worker.kill()
    await produce(source, topic, 300, start=600)
    selected = [n for n in range(900) if wanted(n)]
    async with Worker(source, target, tmp_path, "--topics", topic, *flags) as worker:

        async def complete() -> bool:
            return len(await _numbers(target, topic)) >= len(selected)

        await until(complete)
        await worker.caught_up(topic, 0)
    assert await _numbers(target, topic) == selected


async def test_a_mistyped_name_leaves_no_topic_behind_silently(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """What was copied and is selected no more is named by all that speak of a failover; it may be excluded."""
    source, target = await clusters.pair(SOURCE, TARGET)
    orders, payments = topic_name("orders"), topic_name("payments")
    for topic in (orders, payments):
        await create_topic(source, topic, queues=1)
        await produce(source, topic, 10)

    def reasons(worker: Worker) -> str:
        return str(worker.ask("GET", "/connectors/route/readiness")[1]["reasons"])

    async with Worker(source, target, tmp_path, "--topics", f"{orders},{payments}") as worker:
        for topic in (orders, payments):
            await worker.caught_up(topic, 10)
        await until(lambda: reasons(worker) == "[]")
        await worker.drain()
    left = f"topic {payments} was copied by this route and is not selected any more"
    mistyped = ("--topics", f"{orders},{payments}x")
    async with Worker(source, target, tmp_path, *mistyped) as worker:
        await until(lambda: worker.running == [orders])
        assert left in reasons(worker)
        report = worker.ask("POST", "/connectors/route/failover", {"dry_run": True})[1]
        assert any(each.startswith(left) for each in report["problems"])
        (warned,) = (each for each in worker.events if each["event"].startswith("topics names a topic"))
        assert (warned["level"], warned["topic"]) == ("warning", f"{payments}x")
        (changed,) = (each for each in worker.events if each["event"] == "connector has a new configuration")
        assert changed["before"] == {"topics": [orders, payments]}
        await worker.drain()
    async with Worker(source, target, tmp_path, *mistyped, "--exclude-topics", payments) as worker:
        await until(lambda: worker.running == [orders])
        await until(lambda: reasons(worker) == "[]")


async def test_a_condition_that_brokers_do_not_understand(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Refused at the start in the broker's words; nothing is made for it at either cluster."""
    source, target = await clusters.pair(SOURCE, TARGET)
    await create_topic(source, topic_name("t"), queues=1)
    before = await topics_of(source), await topics_of(target)
    worker = Worker(source, target, tmp_path, "--topics", topic_name("t"), "--sql", "n >= AND")
    await worker.start(ready=False)
    assert await worker.wait() == 3
    assert "sql = 'n >= AND': source broker east-a rejects it" in worker.log
    assert (await topics_of(source), await topics_of(target)) == before


async def test_start_from_a_time(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """Messages stored before it are not copied."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 100)
    last = max(m.store_timestamp for messages in (await raw_topic(source, topic)).values() for m in messages)
    moment = datetime.fromtimestamp((last + 1) / 1000, UTC).isoformat()
    await until(lambda: time.time() * 1000 > last + 1)
    await produce(source, topic, 100, start=100)
    async with Worker(source, target, tmp_path, "--topics", topic, "--start-from", moment) as worker:
        await worker.caught_up(topic, 100)
    assert await _numbers(target, topic) == list(range(100, 200))


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_user_topics_and_no_others_by_default(
    tmp_path: Path, clusters: ClusterPool, topic_name: Callable[[str], str], version: str
) -> None:
    """No file and no flag more: every user topic, nothing that brokers made for themselves."""
    target = await clusters.get(ClusterSpec(name="west", version="5.5.0"))
    orders, *others = (topic_name(last) for last in ("orders", "payments", "with|pipe", "percent%"))
    async with clusters.fresh(ClusterSpec(name="plain", version=version)) as source:
        for topic in (orders, *others, f"%RETRY%{topic_name('group')}"):
            await create_topic(source, topic, queues=2)
        before = set((await topics_of(target))["west-a"])
        await produce(source, orders, 10)
        async with Worker(source, target, tmp_path) as worker:
            await worker.caught_up(orders, 10)
            status = worker.get("/status")
            assert {t["topic"] for t in status["topics"]} == {orders, *others}
        own = {topic for topic in (await topics_of(target))["west-a"] if not topic.startswith("replicator_sys_")}
        made = own - before
        assert made == {orders, *others}


@pytest.mark.parametrize(
    ("flag", "rate", "counter"),
    [("messages", 1000, "messages_replicated_total"), ("bytes", 262_144, "bytes_replicated_total")],
    ids=["messages", "bytes"],
)
async def test_rates_hold_and_can_be_changed_while_it_runs(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], flag: str, rate: int, counter: str
) -> None:
    """So many a second; then no limit."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=4)
    await produce(source, topic, 20_000)
    flags = ("--topics", topic, f"--rate-{flag}", str(rate), "--batch-messages", "100")
    async with Worker(source, target, tmp_path, *flags) as worker:
        await until(lambda: worker.metric(counter) >= rate / 2)
        started, before = time.monotonic(), worker.metric(counter)
        await until(lambda: worker.metric(counter) >= before + 2 * rate)
        assert 0.1 * rate < (worker.metric(counter) - before) / (time.monotonic() - started) < 1.3 * rate
        await worker.set_rates()
        await worker.caught_up(topic, 20_000)
        assert worker.metric("throttled_seconds_total") > 0
