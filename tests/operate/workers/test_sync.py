"""What the terminal shows of a failover, and how long one may wait."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from replicator.cli import app
from replicator.errors import ConfigError, StartupError
from replicator.exit_codes import ExitCode
from replicator.metadata.action import Unasked
from replicator.operate.workers import sync as commands
from replicator.operate.workers.rest import Rest
from replicator.operate.workers.sync import _topics, report_of
from tests.client.peer import unused_port


def drawn(**known: Any) -> list[str]:
    return lines(**known)[1].split("  ")


def lines(**known: Any) -> list[str]:
    topic = {"topic": "orders", "target": "orders", "messages": 5, "counted": True, "seconds": 2, "problem": ""}
    audit = {"topic": "orders", "not_verified": 0, "differences": {}}
    found = {"topics": [topic | {"seconds_known": True} | known], "verified": [audit]}
    console = Console(width=120, record=True)
    console.print(_topics(found))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_what_is_missing_and_how_old_it_is() -> None:
    row = [cell.strip() for cell in drawn() if cell.strip()]
    assert row == ["orders", "orders", "5", "2.0", "0", "0"]


def test_what_is_not_known_is_not_shown_as_a_number() -> None:
    """Of a source that is dead the age of what is missing may not be known, and only how much it is at most."""
    row = [cell.strip() for cell in drawn(counted=False, seconds_known=False, seconds=0) if cell.strip()]
    assert row == ["orders", "orders", "up to 5", "not known", "0", "0"]


def test_waiting_messages_are_in_no_audit() -> None:
    """Every source of 4.9 has this topic."""
    row = [cell.strip() for cell in drawn(topic="SCHEDULE_TOPIC_XXXX", target="parked") if cell.strip()]
    assert row == ["delayed messages", "parked", "5", "2.0"]


def test_where_nothing_waits_no_topic_of_the_system_is_shown() -> None:
    """Of each source there would be one."""
    assert lines(topic="SCHEDULE_TOPIC_XXXX", messages=0) == ["no topic"]


def test_problems_stand_below() -> None:
    """They are long, and a table has 80 columns."""
    shown = lines(problem="the source has messages that cannot be counted")
    assert shown[1].split() == ["orders", "orders", "5", "2.0", "0", "0"]
    assert shown[2:] == ["orders: the source has messages that cannot be counted"]


SWITCHES = ["failover"], ["reverse", "--back-url", "127.0.0.1:1"], ["failback", "--back-url", "127.0.0.1:1"]


@pytest.mark.parametrize("command", SWITCHES)
@pytest.mark.parametrize("seconds", ["1e12", "86401", "inf", "nan", "-1"])
def test_a_wait_that_is_none(command: list[str], seconds: str) -> None:
    """It is refused before anybody is asked."""
    given = [*command, "--url", f"127.0.0.1:{unused_port()}", "--drain-timeout", seconds]
    ended = CliRunner().invoke(app, given)
    assert isinstance(ended.exception, ConfigError)
    assert "is not between 0 and 86400: give a number of seconds" in str(ended.exception)


@pytest.mark.parametrize("command", SWITCHES)
@pytest.mark.parametrize("seconds", ["0", "86400"])
def test_a_wait_of_a_day(command: list[str], seconds: str) -> None:
    given = [*command, "--url", f"127.0.0.1:{unused_port()}", "--drain-timeout", seconds]
    assert isinstance(CliRunner().invoke(app, given).exception, StartupError)


@pytest.mark.parametrize("command", [commands.plan, commands.apply])
def test_commands_end_with_1_where_something_is_not_known(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Unasked("groups", "x", "away").shown()]
    monkeypatch.setattr(Rest, "ask", lambda *_: found)
    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == ExitCode.NOT_AS_EXPECTED
    found.clear()  # and otherwise with 0
    command()


REPORT: dict[str, Any] = {
    **{name: [] for name in ("topics", "missing", "topics_opened", "groups", "problems")},
    "connector": "route",
    "dry_run": False,
    "stopped": True,
    "drained": False,
    "offsets": 0,
    "released": None,
    "pending": {"messages": [], "uncounted": 0, "problems": []},
}


def reported(**found: Any) -> list[str]:
    console = Console(width=120, record=True)
    console.print(report_of(REPORT | found))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize(
    ("at", "since"),
    [(1764000000.0, "as of 2025-11-24 16:00:00 UTC"), (None, "as of the last sync, whose time is not known")],
)
def test_as_of_when_offsets_are_at_the_target(at: float | None, since: str) -> None:
    """With the source dead none is written any more, and nobody asks it for one: they are there already."""
    lines = reported(
        synced={"at": at, "groups": [{"group": "readers", "queues": 8}, {"group": "one", "queues": 1}]}
    )
    assert "offsets of groups at the target are those of the last sync:" in lines
    assert f"- readers: {since}, 8 queues" in lines
    assert f"- one: {since}, 1 queue" in lines
    assert not any("0 offsets written" in line or "no offset of a group" in line for line in lines)
    assert "0 topics changed" in lines


def test_of_groups_without_offsets_it_says_so() -> None:
    assert "no group that is synced has an offset at the target" in reported(synced={"at": 1.0, "groups": []})
    lines = reported()
    assert "0 offsets written, 0 topics changed" in lines
    assert "no offset of a group is known at the source" in lines


@pytest.mark.parametrize("problem", ["offsets at a: timed out", "topics: no name server answers"])
def test_of_groups_that_could_not_be_asked_for_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    """The problem says it."""
    none = "no offset of a group is known"
    lines = reported(problems=[problem])
    assert f"- {problem}" in lines
    assert not any(none in line for line in lines)
    found = {"ready": False, "reasons": [problem], "failed_over_at": None, "pending": REPORT["pending"]}
    monkeypatch.setattr(Rest, "ask", lambda *_: {**found, "topics": [], "groups": [], "verified": []})
    assert none not in CliRunner().invoke(app, ["readiness"]).stdout
    found["reasons"] = ["topic orders: 1 message is not at the target yet"]
    assert none in CliRunner().invoke(app, ["readiness"]).stdout


def test_what_is_lost_is_not_said_to_be_copied_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what a route that stands still does not copy to be copied at once."""
    lost = {**REPORT["pending"], "lost": ["transactions are lost with it"]}
    lines = reported(pending=lost)
    assert lines[lines.index("lost with the source:") + 1] == "- transactions are lost with it"
    assert not any(line.startswith("held back") for line in lines)
    waiting = {**REPORT["pending"], "uncounted": 3}
    head = "held back by the source, and copied once it delivers them"
    assert f"{head}, when the route runs again:" in reported(pending=waiting)
    assert f"{head}:" in reported(pending=waiting, dry_run=True)
    found = {"ready": True, "reasons": [], "pending": waiting, "topics": [], "groups": [], "verified": []}
    monkeypatch.setenv("COLUMNS", "120")
    for state, ends in (("RUNNING", f"{head}:"), ("STOPPED", f"{head}, when the route runs again:")):
        monkeypatch.setattr(Rest, "ask", lambda *_, state=state: {**found, "state": state})
        assert ends in CliRunner().invoke(app, ["readiness"]).stdout.splitlines()


@pytest.mark.parametrize(
    ("at", "reasons", "head", "code"),
    [
        (None, [], "ready to switch", 0),
        (None, ["topic orders: x"], "not ready", 5),
        (1764000000.0, [], "failed over, and everything is at the target", 0),
        (1764000000.0, ["topic orders: x"], "failed over, and not everything is at the target", 5),
    ],
)
def test_a_route_that_was_failed_over_says_so(
    monkeypatch: pytest.MonkeyPatch, at: float | None, reasons: list[str], head: str, code: int
) -> None:
    found = {"ready": not reasons, "reasons": reasons, "failed_over_at": at, "pending": REPORT["pending"]}
    monkeypatch.setattr(Rest, "ask", lambda *_: {**found, "topics": [], "groups": [], "verified": []})
    ended = CliRunner().invoke(app, ["readiness"])
    assert (ended.exit_code, ended.stdout.splitlines()[0]) == (code, head)
    said = " ".join(ended.stdout.split())  # however wide the terminal is
    told = (
        "the route was failed over at 2025-11-24 16:00:00 UTC and is stopped: what comes to the source now is not"
    )
    assert (told in said and "ask the opposite route" in said) == (at is not None)


def test_a_report_names_queues_of_dead_brokers() -> None:
    """With the last copied offset and when it was stored; a few of many."""
    unknown = {"broker": "b", "queue": 3, "position": 121, "copied_until": 1764000000.5}
    topic = {"messages": 7, "counted": True, "problem": "b is dead", "unknown_queues": [unknown]}
    assert commands._missing(topic) == [
        "7 messages are only at the source",
        "b is dead",
        "queue b/3: copied up to offset 120, stored 2025-11-24 16:00:00 UTC; the rest is not known",
    ]
    topic["unknown_queues"] = [unknown] * 20
    assert commands._missing(topic)[-1] == "and 12 more queues: -o json names them"


def test_a_report_counts_queues_of_which_nothing_was_copied() -> None:
    """A source has eighteen delay levels, and most are never used."""
    begun = {"broker": "a", "queue": 3, "position": 1, "copied_until": None}
    empty = [{"broker": broker, "queue": 0, "position": None, "copied_until": None} for broker in "aba"]
    topic = {"messages": 0, "counted": True, "problem": "", "unknown_queues": [*empty, begun]}
    assert commands._missing(topic) == [
        "queue a/3: copied up to offset 0; the rest is not known",
        "nothing was copied of 2 queues of a, which may be empty",
        "nothing was copied of 1 queue of b, which may be empty",
    ]


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, []),  # of an older worker
        ({"in_flight": 0, "to_retry_topic": 0, "acknowledged_after": 0, "held_back_by": []}, []),
        (
            {"in_flight": 3, "to_retry_topic": 3, "acknowledged_after": 0, "held_back_by": []},
            ["- readers in T: 3 messages into its retry topic at the target"],
        ),
        (
            {"in_flight": 3, "to_retry_topic": 1, "acknowledged_after": 4, "held_back_by": ["it has consumers"]},
            [
                "- readers in T: 1 message into its retry topic at the target",
                "- readers in T: 4 messages that it has acknowledged, behind those in flight: it has consumers",
            ],
        ),
    ],
)
def test_what_becomes_of_what_pop_consumers_hold(more: dict[str, Any], lines: list[str]) -> None:
    names = ("redelivered", "missed", "without_offset", "not_copied", "before_start", "in_flight")
    group = {"group": "readers", "topic": "T", **dict.fromkeys(names, 0), "stopped_by": [], **more}
    found = reported(groups=[group])
    assert [line for line in found if line.startswith("- readers")] == lines
    assert ("held by POP consumers, and delivered to them again:" in found) == bool(lines)
