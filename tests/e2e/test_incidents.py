"""Incidents of docs/INCIDENTS.md: each alert is pending, then fires, and says what it is and where to read."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from replicator.client.topics import TopicConfig, write_topic
from tests.support.alerts import fires, rests, watching
from tests.support.offsets import commit, make_group
from tests.support.prometheus import Prometheus
from tests.support.readiness import asked, changed, ready
from tests.support.scene import TARGET, Scene, SceneOf
from tests.support.traffic import connected, has_perm, send
from tests.support.worker import Worker, until
from tools.dashboards.page import ROOT

pytestmark = pytest.mark.timeout(600)

FLAGS = (
    *("--sync", "topics,groups,offsets", "--sync-offsets-interval", "0.5", "--session-timeout", "4"),
    *("--sync-topics-interval", "0.5", "--sync-groups-interval", "0.5"),
)
#: With our provenance its properties are longer than a message can have.
TOO_LONG = (b"too long", {"KEYS": "k", "filling": "x" * 32_692})
RUNBOOK = (ROOT / "docs/RUNBOOK.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Alert:
    """As Prometheus tells of it; times in seconds since the epoch."""

    pending: float
    firing: float
    annotations: Mapping[str, str]


def alert(prometheus: Prometheus, name: str) -> Alert:
    """One that fires now: when it began to, and what it says."""
    (told,) = [
        each
        for each in prometheus.ask("api/v1/alerts")["alerts"]
        if each["labels"]["alertname"] == f"Replicator{name}" and each["state"] == "firing"
    ]
    began = {
        series["metric"]["alertstate"]: float(series["values"][0][0])
        for series in prometheus.ever(f'ALERTS{{alertname="Replicator{name}"}}', until=time.time())
    }
    return Alert(began["pending"], began["firing"], told["annotations"])


async def incident(prometheus: Prometheus, name: str, *, at: float, summary: str) -> None:
    """What was broken `at` that time makes the alert `name` pending, then firing, with that `summary`."""
    await fires(prometheus, name)
    found = alert(prometheus, name)
    assert at - 2 < found.pending < found.firing
    assert re.fullmatch(summary, found.annotations["summary"]), found.annotations
    page, anchor = found.annotations["runbook_url"].split("#")
    assert page == "docs/RUNBOOK.md"
    assert f"### Replicator{name}\n" in RUNBOOK
    assert anchor == f"replicator{name}".lower()
    after = f"pending {found.pending - at:.0f} s, firing {found.firing - at:.0f} s"
    print(f"{name}: {after}: {found.annotations['summary']}")  # for the record


async def test_incidents(scene: SceneOf, tmp_path: Path) -> None:
    """Six of them, one after the other; each ends as the runbook says, and its alert with it."""
    async with scene(mistreated=(TARGET,), queues=1) as here:
        await here.produce(50)
        group = f"{here.topic}-readers"
        await make_group(here.source, group)
        await commit(here.source, group, here.topic, {("east-a", 0): 10})
        async with (
            here.worker(*FLAGS, "--sync-groups", group) as worker,
            watching(tmp_path / "prometheus", [worker]) as prometheus,
        ):
            await ready(worker)
            await until(lambda: prometheus.now("count_over_time(up[3s]) >= 3"))
            assert not prometheus.firing()
            where = rf"route/{here.topic} \(east → west\)"
            await _target_stopped(prometheus, here, where)
            await _changed_manually(prometheus, here, worker)
            await _foreign_message(prometheus, here, where)
            await _set_ahead(prometheus, here, worker, group)
            await _forgotten(prometheus, worker)
            await _refused(prometheus, here, worker, where)


async def _target_stopped(prometheus: Prometheus, here: Scene, where: str) -> None:
    (broker,) = here.target.brokers
    at = time.time()
    await broker.kill()
    await here.produce(5, start=1000)
    await incident(prometheus, "QueuesWaiting", at=at, summary=f"1 queues of {where} wait for a broker or a worker")
    await broker.start()
    await rests(
        prometheus, "QueuesWaiting", "LagHigh", "LagCritical", "NothingCopied", "SyncOld", "StateNotMirrored"
    )


async def _changed_manually(prometheus: Prometheus, here: Scene, worker: Worker) -> None:
    at = time.time()
    async with connected(here.target) as client:
        closed = TopicConfig(name=here.topic, read_queues=1, write_queues=1, perm=4)
        await write_topic(client.writer("west-a"), closed)
    await incident(
        prometheus,
        "Drift",
        at=at,
        summary=r"route, topics \(east → west\): 1 settings were changed manually at the target",
    )
    await changed(worker, on_drift="repair")
    await until(lambda: has_perm(here.target, here.topic, 6))
    await rests(prometheus, "Drift")


async def _foreign_message(prometheus: Prometheus, here: Scene, where: str) -> None:
    at = time.time()
    async with connected(here.target) as client:
        await send(client, "west-a", here.topic, 0, [(b"of others", {})])
    await here.produce(1, start=2000)
    await incident(
        prometheus, "ForeignMessages", at=at, summary=f"{where}: other producers write to the target's queues"
    )
    await rests(prometheus, "ForeignMessages")


async def _set_ahead(prometheus: Prometheus, here: Scene, worker: Worker, group: str) -> None:
    at = time.time()
    await commit(here.target, group, here.topic, {("west-a", 0): 40})
    await incident(
        prometheus,
        "GroupsWouldMiss",
        at=at,
        summary=r"route \(east → west\): groups would miss [1-9]\d* messages if they switched now",
    )
    await asked(worker, "POST", "apply", {"force": [group]})
    await rests(prometheus, "GroupsWouldMiss")


async def _forgotten(prometheus: Prometheus, worker: Worker) -> None:
    at = time.time()
    assert worker.ask("PUT", "/connectors/route/pause")[0] == 200
    await incident(
        prometheus,
        "RouteHalted",
        at=at,
        summary=r"route \(east → west\) has been paused for half an hour: nothing is copied",
    )
    assert worker.ask("PUT", "/connectors/route/resume")[0] == 200
    await rests(prometheus, "RouteHalted")


async def _refused(prometheus: Prometheus, here: Scene, worker: Worker, where: str) -> None:
    at = time.time()
    async with connected(here.source) as client:
        await send(client, "east-a", here.topic, 0, [TOO_LONG])
    await incident(prometheus, "QueuesFailed", at=at, summary=f"1 queues of {where} have failed")
    await changed(worker, on_error="dead-letter")
    await rests(prometheus, "QueuesFailed")
