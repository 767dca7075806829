"""What was logged last, without secrets, for people who cannot read the log."""

from __future__ import annotations

import structlog

from replicator.observe.logging import configure, get_logger, log_repeats
from replicator.observe.recent_events import RecentEvents, recent_events


def test_what_is_logged_is_kept_with_its_actor_and_without_secrets() -> None:
    configure(terminal=False)
    before = max((event.id for event in recent_events.after(0)), default=0)
    with structlog.contextvars.bound_contextvars(actor="page 127.0.0.1"):
        get_logger("replicator.kept").warning("kept", topics=["a", "b"], access_token="canary", long="x" * 900)
    get_logger("replicator.kept").debug("not severe enough")
    log_repeats(now=True)
    (event,) = recent_events.after(before)
    assert (event.level, event.event, event.actor) == ("warning", "kept", "page 127.0.0.1")
    assert event.details["topics"] == "a, b"
    assert event.details["access_token"] == "********"
    assert event.details["long"] == "x" * 500 + "…"
    assert event.at.endswith("Z")


def test_only_the_last_ones_are_kept_and_numbers_go_on() -> None:
    events = RecentEvents(kept=3)
    for n in range(5):
        assert events(None, "info", {"event": f"e{n}"}) == {"event": f"e{n}"}
    assert [(event.id, event.event) for event in events.after(0)] == [(3, "e2"), (4, "e3"), (5, "e4")]
    assert [event.id for event in events.after(4)] == [5]
    assert events.after(5) == []
    assert len(events.after(77)) == 3, "the number is that of an earlier process"


def test_many_warnings_leave_what_somebody_asked_for() -> None:
    events = RecentEvents(kept=3)
    for n in range(5):
        events(None, "warning", {"event": f"w{n}"})
        events(None, "info", {"event": f"a{n}", "actor": "page"})
    for n in range(5, 9):
        events(None, "warning", {"event": f"w{n}"})
    assert [event.event for event in events.after(0)] == ["a2", "a3", "a4", "w6", "w7", "w8"]


def test_others_are_told_of_what_is_worth_it_on_one_line_each() -> None:
    events = RecentEvents()
    events(None, "info", {"event": "by itself", "level": "info"})
    events(None, "info", {"event": "asked for", "level": "info", "actor": "page"})
    events(
        None,
        "error",
        {"event": "a\nb\x9b[2J\u202e", "level": "error", "long": "x" * 900, **{f"d{n}": n for n in range(20)}},
    )
    asked, error = events.noticed(0)
    assert (asked["event"], asked["actor"]) == ("asked for", "page")
    assert error["event"] == "a b [2J "
    assert error["details"]["long"] == "x" * 200 + "…"
    assert len(error["details"]) == 8
    assert events.noticed(2) == [error]
    for n in range(100):
        events(None, "error", {"event": f"e{n}", "level": "error"})
    assert [event["event"] for event in events.noticed(0)] == [f"e{n}" for n in range(70, 100)]


def test_what_was_asked_of_earlier_processes_is_recalled() -> None:
    """With when and by whom, and told to others as what is asked now is."""
    events, who = RecentEvents(), {"worker": "w1", "actor": "page"}
    paused = {"what": "connector paused", "connector": "route", "before": "RUNNING", "after": "PAUSED"}
    changed = {"what": "connector has a new configuration", "before": {"a": 1}, "after": {"a": 2}, "note": ""}
    target = {"kind": "topics", "action": "create", "name": "T", "before": None, "after": {"perm": 6}}
    events.recall([{"at": 1.5, **paused, **who}, {"at": 2.0, **changed, **who}, {"at": 3.0, **target, **who}])
    found = events.after(0)
    assert [(event.at, event.event, event.details) for event in found] == [
        (
            "1970-01-01T00:00:01.500000Z",
            "connector paused",
            {"connector": "route", "before": "RUNNING", "after": "PAUSED"},
        ),
        ("1970-01-01T00:00:02.000000Z", "connector has a new configuration", {"differ": "a"}),
        ("1970-01-01T00:00:03.000000Z", "target changed", {"kind": "topics", "action": "create", "name": "T"}),
    ]
    assert [event["actor"] for event in events.noticed(0)] == ["page"] * 3
    assert [event.level for event in found] == ["warning", "warning", "info"]  # as they were logged
