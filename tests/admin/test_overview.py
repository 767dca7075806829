"""The verdict of the overview: what a failover puts in order by itself does not stand against it, all else does."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.admin import overview as overview_module
from replicator.admin.kept_answers import Kept
from replicator.admin.overview import Overview, Safety, group_safety, missing_workers, safety, time_left
from replicator.admin.readiness import reasons_of_groups, reasons_of_topics
from replicator.connector.route import Route
from replicator.observe.topic_history import TopicHistory
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, State
from replicator.worker.worker import Worker
from tests.support.page import paged_worker

ROUTE = Connector("route", RouteSettings(topics=["orders"]), State.RUNNING, "rest", 0)
GROUP = {"group": "g", "topic": "orders", "redelivered": 0, "missed": 0, "without_offset": 0, "stopped_by": []}


def topic(**changed: object) -> dict[str, Any]:
    """As a worker publishes it, as far as it counts here."""
    found = {"topic": "orders", "queues": 4, "failed": 0, "waiting": 0, "stalled": 0, "reason": ""}
    return {**found, "state": "RUNNING", **changed}


def lag(messages: int, seconds: float, problem: str = "", *, known: bool = True) -> dict[str, Any]:
    unknown = [{"broker": "a", "queue": 0}] if "not known" in problem else []
    found = {"topic": "orders", "messages": messages, "seconds": seconds, "problem": problem, "counted": True}
    return {**found, "seconds_known": known, "unknown_queues": unknown}


def ready(*, lags: Any = (), groups: Any = (), others: Any = (), waiting: Any = ()) -> dict[str, Any]:
    """What the clusters were found to have, with its reasons as `readiness` gives them."""
    pending = {"messages": list(waiting), "uncounted": 0, "problems": []}
    reasons = [*reasons_of_topics(lags), *others, *reasons_of_groups(groups)]
    return {"topics": list(lags), "groups": list(groups), "reasons": reasons, "pending": pending}


def judged(answer: dict[str, Any] | None = None, *topics: Any, age: float = 1.0, **kept: Any) -> Safety:
    known = Kept(ready() if answer is None else answer, 1000.0 - age, **kept)
    return safety(kept.pop("connector", ROUTE), topics or [topic()], known, at=1000.0)


def test_all_at_the_target_is_safe() -> None:
    found = judged()
    assert (found.verdict, found.reasons, found.unknown, found.notes) == ("yes", [], [], [])


def test_messages_on_their_way_and_offsets_that_are_written_last_are_no_reason() -> None:
    found = judged(ready(lags=[lag(3, 0.2)], groups=[GROUP | {"redelivered": 12}]))
    assert (found.verdict, found.reasons) == ("yes", [])
    assert found.notes[0].startswith("up to 3 messages are on their way, the oldest for 0.2 s")
    assert found.notes[1].startswith("consumer groups would get 12 messages redelivered")


@pytest.mark.parametrize("state", [State.STOPPED, State.PAUSED])
def test_nothing_is_on_its_way_where_nobody_copies(state: State) -> None:
    """A failover would wait for it in vain."""
    halted = Connector("route", ROUTE.settings, state, "rest", 0)
    found = safety(halted, [topic(state=state.value)], Kept(ready(lags=[lag(7, 3.0)]), 999.0), at=1000.0)
    assert (found.verdict, found.reasons) == ("no", ["topic orders: 7 messages are not at the target yet"])
    assert len(found.notes) == 1


def test_what_has_waited_for_nobody_knows_how_long_is_not_on_its_way() -> None:
    """The source does not give the oldest of them: that may be one which it has deleted since."""
    found = judged(ready(lags=[lag(3, 0.0, known=False)]))
    assert (found.verdict, found.notes) == ("no", [])
    assert found.reasons == ["topic orders: 3 messages are not at the target yet"]


def test_what_waits_at_the_source_is_no_reason_and_is_named() -> None:
    found = judged(ready(waiting=[{"topic": "orders", "kind": "delay", "messages": 40, "parked": "off"}]))
    assert found.verdict == "yes"
    (note,) = found.notes
    assert note == (
        "waits at the source, and is copied once it is delivered there: orders: 40 delayed messages,"
        " not parked at the target (`sync` with pending parks them)"
    )


@pytest.mark.parametrize(
    "answer",
    [
        ready(lags=[lag(3, 11.0)]),
        ready(lags=[lag(0, 0.0, problem="the target has fewer queues")]),
        ready(groups=[GROUP | {"missed": 1}]),
        ready(groups=[GROUP | {"without_offset": 1}]),
        ready(groups=[GROUP | {"redelivered": 5, "stopped_by": ["it has not read a foreign message"]}]),
        ready(others=["queue orders/a/0: the target has lost messages that it had acknowledged"]),
    ],
)
def test_what_a_failover_does_not_put_in_order_is_a_reason(answer: dict[str, Any]) -> None:
    found = judged(answer)
    assert (found.verdict, found.reasons) == ("no", answer["reasons"])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"failed": 2, "reason": "no permission"}, "topic orders: 2 of 4 queues have failed: no permission"),
        ({"waiting": 1, "reason": "away"}, "topic orders: 1 of 4 queues wait: away"),
        ({"stalled": 4}, "topic orders: 4 of 4 queues make no progress"),
        ({"state": "UNASSIGNED"}, "topic orders: no worker copies it"),
    ],
)
def test_topics_that_are_not_copied_are_reasons(changed: dict[str, Any], told: str) -> None:
    found = judged(None, topic(**changed))
    assert (found.verdict, found.reasons) == ("no", [told])


def test_what_was_not_found_out_is_not_safe() -> None:
    assert judged(ready(lags=[lag(0, 0, "its end is not known")])).verdict == "unknown"
    never = safety(ROUTE, [topic()], Kept(asking=True), at=1000.0)
    assert (never.verdict, never.unknown) == (
        "unknown",
        ["what the clusters have is not known: the clusters are being asked"],
    )
    old = judged(age=75.0, problem="the target is away")
    assert old.unknown == ["what the clusters have was last seen 75 s ago: the target is away"]
    late = judged(age=7.0, asking=True, late=True)
    assert late.unknown == ["what the clusters have was last seen 7 s ago: a cluster does not answer now"]
    lately = judged(age=7.0, problem="the target is away")
    assert (lately.verdict, len(lately.notes)) == ("yes", 1)


def test_topics_that_were_last_seen_long_ago_are_not_known() -> None:
    seen = "which topics the clusters have was last seen at 2026-11-25 10:00:00 UTC: what was created since"
    found = judged(ready(others=[seen]))
    assert (found.verdict, found.unknown) == ("unknown", [seen])


async def test_readiness_is_that_of_the_configuration_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of seconds ago says nothing of a topic that has been added, nor does a route that still ends."""

    async def found(route: Any, _context: object, *, seen_at: float, failed_over_at: object) -> dict[str, Any]:
        assert (seen_at, failed_over_at) == (7.0, None)
        return {"topics": route.settings.topics}

    monkeypatch.setattr(overview_module, "readiness", found)
    with paged_worker(tmp_path) as paged:
        worker: Any = paged.worker
        worker.refresher = SimpleNamespace(seen_at=7.0)
        paged.route = object.__new__(Route)
        paged.route.settings = paged.connectors.get("route").settings
        overview = Overview(worker, TopicHistory())
        assert (await overview.readiness_of(paged.connectors.get("route"))).value == {"topics": ["orders"]}
        now = paged.connectors.update("route", {"topics": ["orders", "bills"]})
        kept = await overview.readiness_of(now)
        assert kept.value is None
        assert "still ends the tasks of the old one" in kept.problem
        assert safety(now, [topic()], kept, at=time.time()).verdict == "unknown"


def test_a_stopped_connector_is_said_to_be() -> None:
    stopped = Connector("route", ROUTE.settings, State.STOPPED, "rest", 0)
    found = safety(stopped, [topic(state="STOPPED")], Kept(ready(), 999.0), at=1000.0)
    assert (found.verdict, len(found.notes)) == ("yes", 1)
    assert "connector route is STOPPED" in found.notes[0]


def test_a_source_that_is_away_is_the_first_thing_that_is_said() -> None:
    """Not once for each topic; with what is known of the target, and what to do."""
    loss = "queue orders/a/0: the target has lost messages that it had acknowledged"
    unknown = lag(0, 0, "its end is not known") | {
        "unknown_queues": [{"copied_until": 900.0}, {"copied_until": 940.0}, {"copied_until": None}]
    }
    answer = ready(
        lags=[unknown], groups=[GROUP | {"missed": 3}], others=[loss, "topics at a: it cannot be reached"]
    )
    away = topic(state="UNASSIGNED", reason="the source is away")
    found = safety(ROUTE, [away], Kept({**answer, "verified": []}, 999.0), at=1000.0, away="no route")
    assert (found.verdict, found.reasons) == ("no", [loss, "group g in orders would miss 3 messages"])
    assert len(found.unknown) == 1
    assert found.unknown[0].startswith("the source cannot be reached")
    assert found.notes[0] == "the last copied message was stored at 1970-01-01 00:15:40 UTC, 60 s ago"
    assert "--source-dead" in found.notes[1]
    nothing = safety(ROUTE, [away], Kept(), at=1000.0, away="no route")
    assert (nothing.verdict, len(nothing.unknown), len(nothing.notes)) == ("unknown", 1, 1)
    apart = worker(refresher=SimpleNamespace(source_away="no route"), may_send=lambda: False)
    assert group_safety(worker(standby=SimpleNamespace(reason="no route")), CLUSTER).verdict == "yes"
    assert group_safety(apart, CLUSTER).verdict == "yes", "each connector says it"


def test_when_a_route_was_failed_over_is_said() -> None:
    """Whether its source can be reached or not; nobody is told to fail over again."""
    stopped = Connector("route", ROUTE.settings, State.STOPPED, "rest", 0)
    said = "connector route was failed over at 2025-11-24 16:00:00 UTC and is STOPPED"
    dead = safety(stopped, [], Kept(), at=1764000100.0, away="no route", over=1764000000.0)
    assert dead.notes == [said]
    alive = safety(stopped, [], Kept(ready(), 1764000099.0), at=1764000100.0, over=1764000000.0)
    assert alive.notes == [f"{said}: what comes to the source now is not copied"]


def heard(**changed: object) -> Any:
    """A group whose workers all have one secret."""
    inbox = SimpleNamespace(hears_other_secret=False)
    return SimpleNamespace(**{"waiting_for": "", "is_split": False, "inbox": inbox} | changed)


def worker(**changed: object) -> Worker:
    parts: dict[str, object] = {
        "id": "w1",
        "standby": None,
        "refresher": SimpleNamespace(source_away=""),
        "others": {},
        "group": heard(),
        "may_send": lambda: True,
        "coordinator": SimpleNamespace(assignment=SimpleNamespace(members=frozenset({"w1"}))),
    }
    return cast("Worker", SimpleNamespace(**{**parts, **changed}))


CLUSTER = {"rebalancing": False, "workers": []}


@pytest.mark.parametrize(
    ("changed", "cluster", "told"),
    [
        ({"group": heard(waiting_for="job 7")}, CLUSTER, "this worker waits for job 7 to end"),
        ({"group": heard(is_split=True)}, CLUSTER, "this worker copies nothing"),
        ({"may_send": lambda: False}, CLUSTER, "this worker does not reach its group"),
        ({}, CLUSTER | {"rebalancing": True}, "a rebalance is in progress"),
        (
            {"coordinator": SimpleNamespace(assignment=SimpleNamespace(members=frozenset({"w1", "w2"})))},
            CLUSTER,
            "worker w2 has tasks and is not heard from",
        ),
    ],
)
def test_a_group_that_is_not_whole_hides_something(
    changed: dict[str, Any], cluster: dict[str, Any], told: str
) -> None:
    found = group_safety(worker(**changed), cluster)
    assert (found.verdict, len(found.unknown)) == ("unknown", 1)
    assert found.unknown[0].startswith(told)


def test_a_whole_group_hides_nothing() -> None:
    assert group_safety(worker(), CLUSTER).verdict == "yes"
    assert missing_workers(worker()) == []
    idle = {"worker_id": "w2", "state": "ONLINE", "takes_tasks": False, "waiting_for": ""}
    assert group_safety(worker(), CLUSTER | {"workers": [idle]}).notes == [
        "worker w2 gets no further tasks: it does not reach the target"
    ]


def test_workers_with_another_secret_are_told_of() -> None:
    """By those that go on copying: each of the two groups believes that it is alone."""
    split = heard(inbox=SimpleNamespace(hears_other_secret=True))
    found = group_safety(worker(group=split), CLUSTER)
    assert found.verdict == "yes"
    (note,) = found.notes
    assert "sign with another secret" in note
    assert "worker_group_secret_file" in note


def test_time_left() -> None:
    assert (time_left(0, 0), time_left(100, -10), time_left(100, 0), time_left(100, 5)) == (0.0, 10.0, None, None)


async def test_a_group_without_a_route_has_no_verdict() -> None:
    view = SimpleNamespace(
        cluster=lambda: {
            "group": "g",
            "source": "east",
            "target": "west",
            "leader": "w1",
            "rebalancing": False,
            "workers": [],
        }
    )
    overview = Overview(worker(connectors=SimpleNamespace(all=dict)), TopicHistory())
    overview._view = cast("Any", view)
    found = await overview.now()
    assert (found["safe"], found["connectors"]) == ("unknown", [])
    assert time.time() - found["at"] < 5
