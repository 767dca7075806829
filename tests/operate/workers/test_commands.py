"""What commands make of a worker's answers."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from replicator.cli import app
from replicator.errors import ConfigError
from replicator.exit_codes import ExitCode
from replicator.operate.workers import commands, sync
from replicator.operate.workers.rest import Refused


def test_a_configuration_is_shown_in_its_own_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """False, null and tables as JSON, so that nothing looks as if it were not set; lists without brackets."""
    config = {"retry_topics": False, "backfill": None, "acl": {"admins": False}, "topics": ["a", "b"], "sql": ""}

    class FakeRest:
        def __init__(self, url: str) -> None:
            assert url == "http://there"

        def get(self, path: str) -> Any:
            assert path == "/connectors/route/config"
            return config

    monkeypatch.setattr(commands, "Rest", FakeRest)
    shown = CliRunner().invoke(app, ["connectors", "config", "route", "--url", "http://there"]).stdout
    rows = dict(line.split(maxsplit=1) for line in shown.splitlines() if len(line.split()) > 1)
    assert {name: value.strip() for name, value in rows.items()} == {
        "setting": "value",
        "retry_topics": "false",
        "backfill": "null",
        "acl": '{"admins": false}',
        "topics": "a, b",
    }


def _topic(name: str, state: str, severity: int, **counts: int) -> dict[str, Any]:
    zero = {"queues": 4, "failed": 0, "waiting": 0, "lag_messages": 0, "stalled": 0}
    return {"topic": name, "state": state, "severity": severity, **zero, **counts}


def test_what_stands_still_is_a_problem_of_a_connector_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list names the worst topic, and counts topics that cannot be planned and those that failed alike."""
    topics = [
        _topic("orders", "FAILED", 9, failed=1),
        _topic("payments", "WAITING", 8, waiting=4),
        _topic("other", "RUNNING", 3),
    ]
    status = {"connector": {"state": "RUNNING"}, "topics": topics, "problems": {"odd": "compacted"}}
    quiet = {"connector": {"state": "RUNNING"}, "topics": topics[2:], "problems": {}}
    moving = [_topic("orders", "RECOVERING", 5), topics[2]]
    recovers = {"connector": {"state": "RUNNING"}, "topics": moving, "problems": {}}
    named = (("a", status), ("b", quiet), ("c", recovers))
    held = {name: {"status": each, "info": {"tasks": []}} for name, each in named}
    monkeypatch.setattr(commands, "Rest", lambda _: SimpleNamespace(get=lambda _: held))
    monkeypatch.setenv("COLUMNS", "200")
    shown = CliRunner().invoke(app, ["connectors", "list"]).stdout.splitlines()
    assert shown[1].split() == ["a", "RUNNING", "0", "12", "1", "4", "0", "3", "orders", "FAILED"]
    assert shown[2].split() == ["b", "RUNNING", "0", "4", "0", "0", "0", "0"]
    assert shown[3].split() == ["c", "RUNNING", "0", "8", "0", "0", "0", "0", "orders", "RECOVERING"]


def test_top_goes_on_while_no_worker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until Ctrl-C; only a mistake at the first look ends it."""
    answers: list[bool] = [True, False, True]
    shown: list[str] = []

    def get(where: str) -> dict[str, Any]:
        if where == "/getClusterInfo" and not answers.pop(0):
            raise Refused("no worker answers")
        return {"source": "east", "target": "west", "workers": []} if where == "/getClusterInfo" else {}

    def sleep(_: float) -> None:
        if not answers:
            raise KeyboardInterrupt

    def update(drawn: RenderableType, *, refresh: bool) -> None:
        assert refresh
        with console.capture() as captured:
            console.print(drawn)
        shown.append(captured.get())

    console = Console(force_terminal=True, width=80, height=24)
    monkeypatch.setattr(commands, "Rest", lambda _: SimpleNamespace(get=get))
    monkeypatch.setattr(commands, "Console", lambda: console)
    monkeypatch.setattr(commands, "Live", lambda *_, **__: nullcontext(SimpleNamespace(update=update)))
    monkeypatch.setattr("time.sleep", sleep)
    commands.top()
    assert ["no worker answers" in each for each in shown] == [True, False]
    assert all("east to west" in each for each in shown)
    answers[:] = [False]
    with pytest.raises(Refused):
        commands.top()


@pytest.mark.parametrize("arguments", [[], ["--once"]])
def test_top_shows_all_of_it_in_a_pipe(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic in a line, none left out, with rates: it looks twice."""
    counts = ("lag_messages", "copied", "gap_messages", "target_lost", "skipped", "duplicates", "foreign")
    zero = dict.fromkeys((*counts, "stalled", "audit_differences", "severity", "lag_seconds"), 0)
    named: list[dict[str, Any]] = [
        {"topic": f"{'orders-' * 12}{number}", "state": "RUNNING"} for number in range(40)
    ]
    topics = [zero | each for each in named]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        for each in topics:
            each["copied"] += 1000

    held = {"route": {"status": {"connector": {"state": "RUNNING"}, "topics": topics}}}
    cluster = {"source": "east", "target": "west", "workers": []}
    answers = {"/getClusterInfo": cluster, "/connectors/list": held}
    monkeypatch.setattr(commands, "Rest", lambda _: SimpleNamespace(get=answers.__getitem__))
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = CliRunner().invoke(app, ["top", *arguments]).stdout.splitlines()
    assert slept == [2.0]
    assert {line.split()[0] for line in lines[-40:]} == {topic["topic"] for topic in topics}


def test_an_offset_is_shown_as_it_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at a terminal, where other numbers have commas: it is there to be copied."""
    shown: list[str] = []

    def print_there(_found: object, _output: object, drawn: RenderableType) -> None:
        with (console := Console(width=80)).capture() as captured:
            console.print(drawn)
        shown.append(captured.get())

    place = {"topic": "orders", "broker": "east-a", "queue": 3, "offset": 4702}
    get = Mock(side_effect=[place, [{"source": place, "target": place}]])
    monkeypatch.setattr(commands, "Rest", lambda _: SimpleNamespace(get=get))
    monkeypatch.setattr(commands, "show", print_there)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    commands.where("orders", "east-a", 3, 4702)
    commands.where("orders", key="42")
    assert [each.count("4702") for each in shown] == [1, 2]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (["a"], "'a' is not name=value: for example topics=orders,pay-.*"),
        (["a", "x=1", "b"], "'a', 'b' are not name=value: for example topics=orders,pay-.*"),
        (["a=1", "b=2", "a=3"], "'a' is given twice: give lists with commas, as in topics=orders,pay-.*"),
        (["@none.json"], "'none.json' cannot be read (No such file or directory): name a readable file"),
        (
            ["@broken.json"],
            "'broken.json' is not valid JSON (Expecting value: line 1 column 1 (char 0)): fix the file",
        ),
        (["@list.json"], """'list.json' does not hold a JSON object: write {"topics": "orders"}"""),
    ],
)
def test_a_configuration_that_cannot_be_used(
    config: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it, and what to do; no worker is asked."""
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("topics")
    Path("list.json").write_text("[]")
    monkeypatch.setattr(commands, "Rest", lambda _: None)
    with pytest.raises(ConfigError) as caught:
        commands.create("route", config)
    assert str(caught.value) == said


def test_why_a_task_failed_is_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, however many its worker has published."""
    trace = "StartupError: the topic is compacted\non host-a"
    found = [
        {"id": "orders", "worker_id": "w1", "state": "FAILED", "trace": trace},
        {"id": "payments", "worker_id": "w2", "state": "RUNNING", "trace": None},
    ]
    monkeypatch.setattr(commands, "Rest", lambda _: SimpleNamespace(get=lambda _: found))
    shown = CliRunner().invoke(app, ["connectors", "tasks", "route"], env={"COLUMNS": "200"}).stdout.splitlines()
    assert shown[0].split() == ["task", "worker", "state", "cause"]
    assert shown[1].split(maxsplit=3) == [
        "orders",
        "w1",
        "FAILED",
        "StartupError: the topic is compacted on host-a",
    ]
    assert shown[2].split() == ["payments", "w2", "RUNNING"]


@pytest.mark.parametrize("interval", ["nan", "inf", "1e300", "-inf"])
def test_an_interval_that_never_ends(interval: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "Rest", lambda _: None)
    ended = CliRunner().invoke(app, ["top", "--interval", interval])
    assert ended.exit_code in (ExitCode.USAGE, ExitCode.BAD_CONFIG) or isinstance(ended.exception, ConfigError)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["east-a"], "BROKER"),
        (["east-a", "0", "7"], "BROKER, QUEUE, OFFSET"),
        (["--side", "source"], "--side"),
        (["east-a", "--side", "target"], "BROKER, --side"),
    ],
)
def test_where_is_asked_by_a_key_or_by_a_place(
    more: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place would be ignored."""
    monkeypatch.setattr(commands, "Rest", lambda _: None)
    ended = CliRunner().invoke(app, ["where", "orders", *more, "--key", "k"])
    assert isinstance(ended.exception, ConfigError)
    assert str(ended.exception) == f"--key and {named} are both given: give the key alone, or the place alone"


@pytest.mark.parametrize(("tasks", "said"), [(1, "1 task"), (2, "2 tasks"), (0, "0 tasks")])
def test_how_many_tasks_a_connector_has(tasks: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"connector": {"state": "RUNNING"}, "tasks": [{}] * tasks, "topics": [], "problems": {}}
    monkeypatch.setattr(commands, "Rest", lambda _: SimpleNamespace(get=lambda _: found))
    shown = CliRunner().invoke(app, ["connectors", "status", "route"]).stdout.splitlines()
    assert shown[0] == f"connector route is RUNNING, with {said}"


@pytest.mark.parametrize("topics", ["", " ", ","])
def test_a_failover_of_no_topic_is_not_one_of_all(monkeypatch: pytest.MonkeyPatch, topics: str) -> None:
    """A variable of a script may be empty."""
    monkeypatch.setattr("replicator.operate.workers.sync.Rest", None)  # nobody is asked
    with pytest.raises(ConfigError, match="names no topic"):
        sync.failover(topics=topics)


def test_without_the_source_no_lag_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published last is shown as such, if there is anything."""
    away = {"source_away": "a:1 cannot be reached", "source_seen_at": 1764000000.0}
    status: dict[str, Any] = {"topics": [], **away}
    monkeypatch.setattr(commands, "Rest", lambda _: SimpleNamespace(get=lambda _: {"route": {"status": status}}))
    monkeypatch.setenv("COLUMNS", "300")
    ended = CliRunner().invoke(app, ["lag"])
    assert ended.exit_code == ExitCode.NOT_AS_EXPECTED
    assert ended.stdout.startswith(
        "the source cannot be reached, so the lag is not known: a:1 cannot be reached; it was last reached at"
        " 2025-11-24 16:00:00 UTC, "
    )
    counts = dict.fromkeys(("lag_seconds", "copied", "verified_age_seconds", "audit_differences"), 0)
    status["topics"] = [{**_topic("orders", "UNASSIGNED", 0, lag_messages=7), **counts, "reason": ""}]
    shown = CliRunner().invoke(app, ["lag"]).stdout
    assert "orders" in shown
    assert "the numbers are those that were published last" in shown
    status["source_away"] = ""
    assert CliRunner().invoke(app, ["lag"]).exit_code == 0
