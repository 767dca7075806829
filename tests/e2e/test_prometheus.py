"""Dashboards and alerts on a real Prometheus that scrapes two workers between real brokers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from replicator.client.topics import TopicConfig, write_topic
from replicator.observe.catalogue import ALWAYS, METRICS, PREFIX
from replicator.sandbox import Cluster
from tests.support.alerts import asked, fires, hurried, panels_without_data, rests, watching
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, producing, share, workers_of
from tests.support.offsets import commit, make_group
from tests.support.prometheus import Prometheus, check_page
from tests.support.traffic import Producer, connected, create_topic, produce, send
from tests.support.worker import Worker, until
from tools.dashboards.jobs import JOBS
from tools.dashboards.page import BOARDS, ROOT

pytestmark = pytest.mark.timeout(300)

BOARDS_OF_WORKERS = [board for board in BOARDS if board is not JOBS]

#: Of what the source is given, a third is left out, so that there is something to show of that, too.
FLAGS = (
    *("--sync", "topics,groups,offsets", "--sync-offsets-interval", "0.5", "--tags", "tag0,tag1"),
    "--metrics-per-queue",
    *("--sync-topics-interval", "0.5", "--sync-groups-interval", "0.5", "--session-timeout", "4"),
)


async def test_every_panel_has_data_and_alerts_fire(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Load, idle, a change at the target, the target away, a worker killed; then each panel is asked for."""
    async with clusters.lent(WEST) as target:
        source = await clusters.get(EAST)
        topics, group = [topic_name("a"), topic_name("b")], topic_name("g")
        await make_group(source, group)
        for topic in topics:
            await create_topic(source, topic, queues=2)
            await produce(source, topic, 300)
            await commit(source, group, topic, {("east-a", queue): 5 for queue in range(2)})
        flags = (*FLAGS, "--topics", ",".join(topics), "--sync-groups", group)
        async with workers_of(source, target, tmp_path, 2, *flags) as workers:
            await until(lambda: share(workers, 2))
            async with watching(tmp_path / "prometheus", workers) as prometheus:
                begun = time.time()
                idle = await _load_and_idle(prometheus, source, topics)
                hours = {"good": (begun, idle), "idle": (idle, time.time())}
                _well_formed([worker.get("/metrics") for worker in workers])
                await _hands(prometheus, source, target, topics[0])
                await _target_away(prometheus, source, target, topics)
                await _worker_killed(prometheus, workers)
                await _halted(prometheus, workers[0])
                hours["bad"] = (hours["idle"][1], time.time())
                assert not panels_without_data(prometheus, BOARDS_OF_WORKERS)
                assert not _empty_and_unexplained(prometheus, hours)
                assert not _events_never_seen(prometheus)


def _empty_and_unexplained(prometheus: Prometheus, hours: dict[str, tuple[float, float]]) -> list[str]:
    """Panels that had nothing to show in one of the hours, and do not say why they may be empty."""
    explained = {f"{board.title}, {panel.title}" for board in BOARDS for panel in board.panels if panel.empty}
    return [
        f"{hour}: {found}"
        for hour, (since, until_) in hours.items()
        for found in panels_without_data(prometheus, BOARDS_OF_WORKERS, since=since, until=until_)
        if not any(found.startswith(f"{name}: ") for name in explained)
    ]


def _events_never_seen(prometheus: Prometheus) -> set[str]:
    """What is marked on lines and did not happen. A worker that restarts here has another port."""
    events = {event.title: event.expression for board in BOARDS for event in board.events}
    seen = {
        title
        for title, expression in events.items()
        if any(series["metric"]["alertname"] for series in prometheus.ever(asked(expression), until=time.time()))
    }
    return {*events} - seen - {"worker restarted"}


def _is_marked(prometheus: Prometheus, mark: str) -> bool:
    return mark not in _events_never_seen(prometheus)


async def _halted(prometheus: Prometheus, worker: Worker) -> None:
    for change, mark in (("pause", "paused"), ("stop", "stopped, or failed over")):
        assert worker.ask("PUT", f"/connectors/route/{change}")[0] == 200
        await until(partial(_is_marked, prometheus, mark), what=f"{mark} is marked on lines")
        assert worker.ask("PUT", "/connectors/route/resume")[0] == 200


async def _load_and_idle(prometheus: Prometheus, source: Cluster, topics: list[str]) -> float:
    """When the load was copied, and all has been idle since."""
    async with producing([Producer(source, topic, per_second=400) for topic in topics]):
        await until(lambda: len(prometheus.now("replicator:failover_blockers == 0")) == 5)
        await asyncio.sleep(3)
    await until(lambda: not prometheus.now("sum(rocketmq_replicator_lag_messages) > 0"))
    idle = time.time() + 5  # rates look back for four seconds
    calm = 'count_over_time(ALERTS{alertstate="firing"}[3s])'
    await until(lambda: not prometheus.now(calm), seconds=40, what="nothing fires while nothing is wrong")
    await until(lambda: time.time() > idle + 2)
    return idle


def _well_formed(pages: list[str]) -> None:
    """What is scraped is what is in the catalogue, each with its labels; one of the workers has the metadata."""
    missing = set(METRICS)
    for page in pages:
        missing &= _empty(page)
    assert missing <= {"errors", "control_messages_ignored", "audit_differences"}


def _empty(page: str) -> set[str]:
    """The metrics of one worker that have no series, once all are found to be as they should."""
    families = {family.name: family for family in text_string_to_metric_families(page)}
    ours = {name.removeprefix(PREFIX): family for name, family in families.items() if name.startswith(PREFIX)}
    assert ours.keys() == METRICS.keys()
    for name, family in ours.items():
        labels = {label for sample in family.samples for label in sample.labels}
        assert labels - {"le"} <= {*METRICS[name].labels, *ALWAYS}, name
    check_page(page)
    return {name for name, family in ours.items() if not family.samples}


async def _hands(prometheus: Prometheus, source: Cluster, target: Cluster, topic: str) -> None:
    """Somebody changes a topic at the target, writes to it, and writes to a system topic."""
    async with connected(target) as client:
        changed = TopicConfig(name=topic, read_queues=2, write_queues=2, perm=4)
        await write_topic(client.writer("west-a"), changed)
        await send(client, "west-a", topic, 0, [(b"foreign", {})])
    async with connected(source) as client:
        await send(client, "east-a", "replicator_sys_control", 0, [(b"garbage", {})])
    await produce(source, topic, 20, start=9000)
    await fires(prometheus, "Drift", "ForeignMessages")


async def _target_away(prometheus: Prometheus, source: Cluster, target: Cluster, topics: list[str]) -> None:
    (broker,) = target.brokers
    broker.pause()
    try:
        for topic in topics:
            await produce(source, topic, 20, start=9100)
        await fires(prometheus, "LagHigh", "NothingCopied", "QueuesWaiting", "SyncOld")
        in_the_way = {found["metric"]["reason"] for found in prometheus.now("replicator:failover_blockers == 1")}
        assert "queues" in in_the_way
    finally:
        broker.resume()
    await rests(prometheus, "LagHigh", "NothingCopied", "QueuesWaiting", "SyncOld")


async def _worker_killed(prometheus: Prometheus, workers: list[Worker]) -> None:
    await workers[1].kill()
    await fires(prometheus, "WorkerDown", "FewerMembers")
    await until(lambda: share(workers[:1], 2))
    await rests(prometheus, "TopicGone")


def test_the_rules_are_hurried_where_they_wait() -> None:
    """No minute is left in what the test above runs."""
    rules = yaml.safe_load(hurried((ROOT / "dashboards/rules.yml").read_text()))
    text = str([rule.get("for", "") + rule["expr"] for group in rules["groups"] for rule in group["rules"]])
    assert not re.search(r"\d[h]\b|\b[2-9]\d*m\b|\* 60", text)
