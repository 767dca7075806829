"""A mistyped name in `topics` is said: what it names is not there, what it should name was copied before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.connector.selection import AbsentNames, deselected, reasons_of_deselected, selector_of
from replicator.group.membership import Generation
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings
from replicator.state.record import Kind, Version
from replicator.state.store import Store

COPIED = ("orders", "payments", "%RETRY%G", "SCHEDULE_TOPIC_XXXX", "gone")


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """A route has copied all of `COPIED`, of which the source has all but `gone`."""
    store = Store(tmp_path)
    for topic in COPIED:
        store.save_queue_map("route", topic, topic, {Queue("a", 0): Queue("x", 0)})
    store.save_queue_map("route", "planned", "planned", {})
    there = [*COPIED[:-1], "planned", "never"]
    topics = {"a": dict.fromkeys(there, None), "b": {}}
    return SimpleNamespace(
        store=store, source=SimpleNamespace(topics=topics, complete={"a", "b"}), system_names=lambda: ()
    )


def left(context: Any, **settings: Any) -> list[str]:
    return deselected("route", selector_of(RouteSettings(**settings)), context)


def test_what_was_copied_and_is_selected_no_more_is_named(context: Any) -> None:
    """Not what is excluded, what the source has no more, nor what was never copied; retries follow their groups."""
    assert left(context, topics=["orders", "paymnts"]) == ["payments"]
    assert left(context, topics=["x+"]) == ["orders", "payments"]
    assert left(context, topics=["orders", "payments"]) == []
    assert left(context, topics=["orders"], exclude_topics=["payments"]) == []
    assert left(context, topics=["orders"], exclude_topics=["pay.*"]) == []
    assert deselected("other", selector_of(RouteSettings(topics=["orders"])), context) == []


def test_what_another_connector_copies_now_is_not_left_behind(context: Any) -> None:
    owners = {"other/payments": "w1", "route/orders": "w1"}
    version = Version(*Generation(1, "w1"))
    context.store.put_version(Kind.ASSIGNMENT, "", version, {"members": ["w1"], "owners": owners})
    assert left(context, topics=["x"]) == ["orders"]


def test_nothing_is_said_of_a_source_that_was_never_seen(context: Any) -> None:
    context.source.topics = {}
    assert left(context, topics=["x"]) == []


def test_the_reason_names_a_few() -> None:
    assert [*reasons_of_deselected([])] == []
    (one,) = reasons_of_deselected(["payments"])
    assert one.startswith("topic payments was copied by this route and is not selected any more: ")
    assert "exclude_topics" in one
    (many,) = reasons_of_deselected([f"t{n}" for n in range(12)])
    assert many.startswith("topics t0, t1, ")
    assert "t9 and 2 more were copied by this route and are not selected any more" in many


def test_a_name_that_no_topic_has_is_warned_of_once(context: Any) -> None:
    """Not while a broker that has not answered may have it; again once it is gone. Patterns may match nothing."""
    names = AbsentNames("route", RouteSettings(topics=["orders", "paymnts", "x.*"]), context)
    context.source.complete = {"a"}
    with capture_logs() as logs:
        names.look()
        assert logs == []
        context.source.complete = {"a", "b"}
        names.look()
        names.look()
        assert [(each["log_level"], each["topic"]) for each in logs] == [("warning", "paymnts")]
        context.source.topics["b"]["paymnts"] = None
        names.look()
        del context.source.topics["b"]["paymnts"]
        names.look()
    assert len(logs) == 2
