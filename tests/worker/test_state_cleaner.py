"""What is gone for good is forgotten, by the leader alone; what is merely away is not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.client.discovery import Discovery
from replicator.group.coordinator import Coordinator
from replicator.routing.queue_map import Queue
from replicator.sandbox import Cluster
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.state_cleaner import Cleaner
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST, said, share
from tests.support.traffic import create_topic, produce, remove_topic
from tests.support.worker import Worker, until


class Setup:
    """Two topics of connector `c`, kept and gone, each with a queue on `east-a`; worker `w` has left."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory)
        for topic in ("kept", "gone", "gone-too"):
            self.store.save_queue_map("c", topic, topic, {Queue("east-a", 0): Queue("west-a", 0)})
            for kind in (Kind.POSITION, Kind.OFFSET):
                self.store.put(kind, f"c/{topic}/east-a/0", {"of": topic})
        self.store.put(Kind.POSITION, "plugin/0", {"position": 1})
        for worker in ("me", "other", "w"):
            self.store.put(Kind.STATUS, worker, {"topics": []})
        self.leads = True
        self.other: Any = SimpleNamespace(releasing=frozenset(), info={"tasks": {}})
        self.coordinator: Any = SimpleNamespace(
            me="me",
            leads=lambda: self.leads,
            running=set(),
            assignment=SimpleNamespace(owners={"c/kept": "me"}),
            membership=SimpleNamespace(others={"other": self.other}),
        )
        self.brokers = {"east-a": None}
        self.source: Any = SimpleNamespace(
            complete={"east-a"},
            topics={"east-a": {"kept": None}},
            cluster=SimpleNamespace(brokers=lambda: self.brokers),
        )
        self.cleaner = Cleaner(
            self.store, cast("Coordinator", self.coordinator), cast("Discovery", self.source), patience=100
        )

    def pass_time(self, start: int, stop: int) -> None:
        for now in range(start, stop):
            self.cleaner.clean(now)

    def keys(self, kind: Kind) -> set[str]:
        return set(self.store.state.items(kind))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path / "store")


ALL = {"c/kept", "c/gone", "c/gone-too"}


def test_what_is_gone_long_enough_is_forgotten(setup: Setup) -> None:
    """Topics with all that is known of them, workers with their status; nothing before its time."""
    setup.pass_time(0, 100)
    assert (setup.keys(Kind.TASK), setup.keys(Kind.STATUS)) == (ALL, {"me", "other", "w"})
    setup.pass_time(100, 106)
    assert (setup.keys(Kind.TASK), setup.keys(Kind.STATUS)) == ({"c/kept"}, {"me", "other"})
    assert setup.keys(Kind.OFFSET) == {"c/kept/east-a/0"}
    assert setup.keys(Kind.POSITION) == {"c/kept/east-a/0", "plugin/0"}
    told = {(record.kind, record.key) for record in setup.store.take_unpublished() if record.value is None}
    assert {(Kind.TASK, "c/gone"), (Kind.POSITION, "c/gone/east-a/0"), (Kind.STATUS, "w")} <= told


def test_what_comes_back_begins_again(setup: Setup) -> None:
    setup.pass_time(0, 90)
    setup.source.topics = {"east-a": {"kept": None, "gone": None}}
    setup.coordinator.membership.others["w"] = setup.other
    setup.pass_time(90, 110)
    assert (setup.keys(Kind.TASK), setup.keys(Kind.STATUS)) == ({"c/kept", "c/gone"}, {"me", "other", "w"})
    setup.source.topics = {"east-a": {"kept": None}}
    setup.pass_time(110, 200)
    assert setup.keys(Kind.TASK) == {"c/kept", "c/gone"}
    setup.pass_time(200, 220)
    assert setup.keys(Kind.TASK) == {"c/kept"}


@pytest.mark.parametrize("away", ["this broker", "another broker", "a broker that this worker has never seen"])
def test_a_broker_that_is_away_may_have_it(setup: Setup, away: str) -> None:
    """It is asked itself, and its slave is not enough."""
    if away == "this broker":
        setup.source.complete = set()
    elif away == "another broker":
        setup.brokers = {"east-a": None, "east-b": None}
    else:
        for topic in ("gone", "gone-too"):
            queues = {Queue("east-z", 0): Queue("west-a", 1), Queue("east-a", 0): Queue("west-a", 0)}
            setup.store.save_queue_map("c", topic, topic, queues)
    setup.pass_time(0, 1000)
    assert setup.keys(Kind.TASK) == ALL


def test_a_forgotten_broker_has_nothing(setup: Setup) -> None:
    """What was on it alone is gone; what was on others, too, is known by them."""
    setup.store.save_queue_map("c", "gone", "gone", {Queue("east-z", 0): Queue("west-a", 1)})
    setup.pass_time(0, 200)
    assert setup.keys(Kind.TASK) == {"c/kept", "c/gone"}
    setup.store.put(Kind.BROKER, "source/east-z", {"forgotten_at": 1.0})
    setup.pass_time(200, 320)
    assert setup.keys(Kind.TASK) == {"c/kept"}


@pytest.mark.parametrize("where", ["assigned", "running", "releasing", "told"])
def test_a_copy_that_runs_is_left_alone(setup: Setup, where: str) -> None:
    """Whoever runs it, whole topics or queues."""
    if where == "assigned":
        setup.coordinator.assignment.owners["c/gone/east-a/0"] = "other"
    elif where == "running":
        setup.coordinator.running.add("c/gone")
    elif where == "releasing":
        setup.other.releasing = frozenset({"c/gone"})
    else:
        setup.other.info = {"tasks": {"c/gone/east-a/0": "running"}}
    setup.pass_time(0, 1000)
    assert setup.keys(Kind.TASK) == {"c/kept", "c/gone"}


def test_only_the_leader_does_it_and_waits_itself(setup: Setup) -> None:
    setup.leads = False
    setup.pass_time(0, 1000)
    assert setup.keys(Kind.TASK) == ALL
    setup.leads = True
    setup.pass_time(1000, 1100)
    assert setup.keys(Kind.TASK) == ALL
    setup.pass_time(1100, 1106)
    assert setup.keys(Kind.TASK) == {"c/kept"}


def test_a_connector_keeps_a_map_so_that_it_is_no_new_one(setup: Setup) -> None:
    """Or the next topic would begin at `start_from`."""
    setup.source.topics = {"east-a": {}}
    setup.coordinator.assignment.owners.clear()
    setup.pass_time(0, 1000)
    assert setup.keys(Kind.TASK) == ALL


async def test_on_real_brokers(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """A deleted topic and a killed worker are forgotten; the topic made again is copied from its first message."""
    source, target = await clusters.pair(EAST, WEST)
    kept, gone = topic_name("kept"), topic_name("gone")
    for topic in (kept, gone):
        await create_topic(source, topic, queues=1)
    soon = "import replicator.worker.state_cleaner as c; c.PATIENCE = 2.0; from replicator.cli import main; main()"
    flags = ("--topics", f"{kept},{gone}", "--start-from", "latest", "--state-publish-interval", "0.5")
    workers = [
        Worker(source, target, tmp_path / name, "--worker-id", name, *flags, group=gone, program=("-c", soon))
        for name in ("w0", "w1")
    ]
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        await until(lambda: share(workers, 2))
        for topic in (kept, gone):
            await produce(source, topic, 10)
        await until(lambda: all(sum(w.has_copied(topic, 10) for w in workers) for topic in (kept, gone)))
        await until(partial(_has_published, source, gone, "{"), what="the other has published its status")
        await workers[1].kill()
        await remove_topic(source, gone)
        await until(partial(_forgotten, workers[0], gone), what="it is forgotten")
        assert f"route/{kept}" in _task_records(workers[0])
        await until(partial(_has_published, source, gone, "null"), what="the worker is forgotten")
        await create_topic(source, gone, queues=1)
        await produce(source, gone, 20)
        await workers[0].caught_up(gone, 20)
        assert workers[0].topic(kept)["gap_messages"] == 0


def _task_records(worker: Worker) -> dict[str, Any]:
    content = json.loads((worker.store / "taskConfig.json").read_text())["content"]["task"]
    return {key: record["value"] for key, record in content.items() if record["value"] is not None}


def _forgotten(worker: Worker, topic: str) -> bool:
    files = [json.loads((worker.store / name).read_text())["content"] for name in ("position.json", "offset.json")]
    records = {**files[0]["position"], **files[1]["offset"]}
    left = [key for key, record in records.items() if f"/{topic}/" in key and record["value"] is not None]
    return not left and f"route/{topic}" not in _task_records(worker)


async def _has_published(source: Cluster, group: str, value: str) -> bool:
    """Whether w1 has published a status that begins with `value`."""
    status = re.compile(r'\["status","w1",\[\d+,"w\d"\],' + re.escape(value))
    return any(f'"group":"{group}"' in text and status.search(text) for text in await said(source))
