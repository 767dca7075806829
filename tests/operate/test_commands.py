"""What commands make of a worker's answers."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from replicator.cli import app
from replicator.errors import ConfigError
from replicator.operate import commands, sync
from replicator.operate.rest import Refused


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
            raise Refused("no replicator answers")
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
    assert ["no replicator answers" in each for each in shown] == [True, False]
    assert all("east to west" in each for each in shown)
    answers[:] = [False]
    with pytest.raises(Refused):
        commands.top()


@pytest.mark.parametrize("topics", ["", " ", ","])
def test_a_failover_of_no_topic_is_not_one_of_all(monkeypatch: pytest.MonkeyPatch, topics: str) -> None:
    """A variable of a script may be empty."""
    monkeypatch.setattr("replicator.operate.sync.Rest", None)  # nobody is asked
    with pytest.raises(ConfigError, match="names no topic"):
        sync.failover(topics=topics)
