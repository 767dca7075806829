"""What a connector's status says is of that connector."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from replicator.admin.group_view import GroupView
from replicator.api.answers import ConnectorStatus
from replicator.connector.status import QueueSums, topic_status
from replicator.plugins.limits import ConnectorLimits
from replicator.routing.limiter import RateLimiter
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, Connectors, State
from replicator.state.record import Kind
from replicator.state.record_types import fit
from replicator.worker.checkpointer import Progress
from replicator.worker.connectors import Routes
from replicator.worker.rate_uses import RateUses
from tests.support.page import TOPIC, PagedWorker, paged_worker

FEWER, COMPACTED = "the target has it with fewer queues", "it is compacted"


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedWorker]:
    with paged_worker(tmp_path) as made:
        yield made


async def _publish(paged: PagedWorker, problems: dict[str, dict[str, str]]) -> None:
    """What the worker tells of its connectors with these problems."""
    routes = object.__new__(Routes)
    routes._routes = {
        name: cast("Any", SimpleNamespace(problems=found, states=[])) for name, found in problems.items()
    }
    for route in routes:
        cast("Any", route).keep = AsyncMock()
        cast("Any", route).limiter = RateLimiter(1000)
    cast("Any", routes)._rate_uses = RateUses()
    cast("Any", routes).share_rates = lambda: None
    routes.rate_uses()  # so that there is something to say of them
    group: Any = SimpleNamespace(coordinator=SimpleNamespace(me="w1"))
    halted = cast("Any", SimpleNamespace(states=[], still_to_tell=lambda *_: []))
    await Progress(paged.store, group, routes, halted, cast("Any", None))._put_status()
    fit(Kind.STATUS, "w1", [1, "w1"], paged.store.state.get(Kind.STATUS, "w1"), now=time.time())


async def test_problems_are_those_of_the_connector(paged: PagedWorker) -> None:
    """Also where two have one with the same topic."""
    paged.connectors.bring("other", RouteSettings(topics=["bills"]))
    route, other = map(paged.connectors.get, ("route", "other"))
    view = GroupView(paged.worker)
    await _publish(paged, {"route": {"bills": FEWER}, "other": {"bills": COMPACTED, "odd": COMPACTED}, "third": {}})
    assert view.status(route)["problems"] == {"bills": FEWER}
    assert view.status(other)["problems"] == {"bills": COMPACTED, "odd": COMPACTED}
    assert view.problems().keys() == {"bills", "odd"}
    await _publish(paged, {"other": {"odd": COMPACTED}})
    assert view.status(route)["problems"] == {}


async def test_what_a_name_server_says_keeps_no_status_from_others(paged: PagedWorker) -> None:
    """A status with controls in it would be left out by them."""
    await _publish(paged, {"route": {"bills": "no broker h\x9b2J\u202e:1\nnext"}})
    assert GroupView(paged.worker).problems() == {"bills": "no broker h 2J :1\nnext"}
    state = QueueState("orders", Queue("a", 0), Queue("b", 0))
    state.set_phase(Phase.WAITING, "no broker h\x9b2J\u202e:1")
    (topic,), (queue,) = topic_status([state]), QueueSums.of([state]).worst()
    assert topic["reason"] == queue["reason"] == "no broker h 2J :1"


def test_an_older_worker_does_not_say_whose_they_are(paged: PagedWorker) -> None:
    """Then none is left out."""
    paged.publish(problems={"bills": FEWER})
    assert GroupView(paged.worker).status(paged.connectors.get("route"))["problems"] == {"bills": FEWER}


def test_a_connector_has_no_trace_of_its_own(paged: PagedWorker) -> None:
    """Tasks fail, and say why; what is always null tells nobody anything."""
    found = GroupView(paged.worker).status(paged.connectors.get("route"))
    assert ConnectorStatus.model_validate(found).model_dump()["connector"] == found["connector"]
    assert found["connector"].keys() == {"state", "worker_id"}


def _fail(paged: PagedWorker, *reasons: tuple[str, int, str], connector: str = "route") -> None:
    """What the worker tells of queues of topics that failed for these reasons."""
    states = []
    for topic, queue, reason in reasons:
        state = QueueState(topic, Queue("east-a", queue), Queue("west-a", queue), route=connector)
        state.set_phase(Phase.FAILED, reason)
        states.append(state)
    status = {"topics": topic_status(states), "queues": QueueSums.of(states).worst(), "problems": {}}
    paged.store.put(Kind.STATUS, "w1", status)


def _traces(paged: PagedWorker, connector: Connector, *tasks: str) -> list[str | None]:
    """What the view says of these tasks of the worker, all of which have failed."""
    names = [f"{connector.name}/{task}" for task in tasks]
    paged.assign(dict.fromkeys(names, "w1"))
    routes: Any = paged.worker.routes
    routes.append(SimpleNamespace(phases=lambda: {name: {Phase.FAILED} for name in names}))
    return [task["trace"] for task in GroupView(paged.worker).tasks(connector)]


def test_a_task_failed_for_its_own_topics_reason(paged: PagedWorker) -> None:
    """One whose reason has not been published yet has none, rather than that of another topic."""
    _fail(paged, ("orders", 0, COMPACTED))
    assert _traces(paged, paged.connectors.get("route"), "bills", "orders") == [None, COMPACTED]


def test_the_task_of_a_queue_failed_for_its_own_reason(paged: PagedWorker) -> None:
    """Two queues of a topic may have failed for two."""
    _fail(paged, ("orders", 0, COMPACTED), ("orders", 1, FEWER))
    tasks = "orders/east-a/0", "orders/east-a/1", "orders/east-a/2"
    assert _traces(paged, paged.connectors.get("route"), *tasks) == [COMPACTED, FEWER, None]


def test_a_plugins_tasks_are_not_named_after_topics(paged: PagedWorker) -> None:
    """The reason of its topic is theirs."""
    config = {"connector.class": "file-source", "filename": "/in", "connect.topicname": "lines"}
    files = Connectors(paged.store, ConnectorLimits(file_dir=Path("/"))).create("files", config)
    _fail(paged, ("lines", 0, "no such file"), connector="files")
    assert _traces(paged, files, "in/a/0") == ["no such file"]


@pytest.mark.parametrize(
    ("told", "lag"),
    [
        ({"w1": ("PAUSED", 2, 70), "w2": ("RUNNING", 1, 35)}, 70),
        ({"w1": ("PAUSED", 1, 30), "w2": ("RUNNING", 1, 35)}, 65),
    ],
    ids=["by one", "by both"],
)
def test_a_lag_does_not_count_twice_after_a_pause(
    paged: PagedWorker, told: dict[str, tuple[str, int, int]], lag: int
) -> None:
    """Until the others have published again, they tell of queues of which one tells for all by now."""
    paged.hear("w2")
    paged.connectors.set_state("route", State.PAUSED)
    paged.map_queues(TOPIC["topic"], 2)
    for name, (state, queues, messages) in told.items():
        topic = {**TOPIC, "state": state, "queues": queues, "lag_messages": messages}
        paged.store.put(Kind.STATUS, name, {"topics": [topic], "problems": {}})
    view = GroupView(paged.worker)
    (found,) = view.topics(paged.connectors.get("route"))
    assert found["lag_messages"] == lag
    assert view.progress()["route", TOPIC["topic"]][0] == lag
