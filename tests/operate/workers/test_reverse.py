"""The switch to and fro: what is asked of whom, and clusters by their names: source and target change places."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from replicator.exit_codes import ExitCode
from replicator.operate.workers.rest import Refused, Rest

WEST_TO_EAST, EAST_TO_WEST = "http://127.0.0.1:2", "http://127.0.0.1:1"
MISSING = {"topic": "orders", "messages": 50, "counted": True, "problem": "", "unknown_queues": []}
PENDING: dict[str, Any] = {"messages": [], "uncounted": 0, "problems": []}
REPORT: dict[str, Any] = {
    "connector": "route",
    "topics": [],
    "dry_run": False,
    "stopped": True,
    "drained": True,
    "missing": [],
    "offsets": 3,
    "topics_opened": [],
    "groups": [],
    "pending": PENDING,
    "released": None,
    "problems": [],
}


def failed_back(
    monkeypatch: pytest.MonkeyPatch, refusal: Refused | None = None, **found: Any
) -> tuple[int, str, list[str]]:
    """`failback` from west to east: its exit code, what it prints, and what it has changed."""
    changed = []

    def ask(rest: Rest, method: str, where: str, body: object = None) -> Any:
        if where == "/getClusterInfo":
            names = ("west", "east") if rest.url == WEST_TO_EAST else ("east", "west")
            return dict(zip(("source", "target"), names, strict=True))
        if refusal is not None and method == "POST":
            raise refusal
        if method != "GET":
            changed.append(f"{rest.url[-1]} {where}")
        return REPORT | found

    monkeypatch.setattr(Rest, "ask", ask)
    given = ["failback", "--url", EAST_TO_WEST, "--back-url", WEST_TO_EAST]
    ended = CliRunner().invoke(app, given)
    if isinstance(ended.exception, Refused):
        raise ended.exception
    return ended.exit_code, ended.stdout, changed


def test_the_way_back_names_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    code, printed, changed = failed_back(monkeypatch)
    assert code == 0
    assert changed == ["2 /connectors/route/failover", "1 /connectors/route/resume"]
    for line in (
        "all that west had is at east",
        "no offset of a group is known at west",
        "Now let producers and consumers use east.",
        "connector route copies east to west now",
    ):
        assert line in printed.splitlines()
    assert "source" not in printed
    assert "target" not in printed


@pytest.mark.parametrize(
    "found", [{"drained": False, "missing": [MISSING]}, {"problems": ["x"]}, {"stopped": False}]
)
def test_nobody_is_told_to_go_on_where_not_all_was_done(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]
) -> None:
    code, printed, changed = failed_back(monkeypatch, **found)
    assert code == ExitCode.NOT_AS_EXPECTED
    assert changed == ["2 /connectors/route/failover"]
    assert "Now let" not in printed
    assert "Look at the above before you let producers and consumers use east." in printed
    assert "connector route, which copies east to west, was left as it was" in printed
    assert ("- orders: 50 messages are only at west" in printed) == ("missing" in found)
    assert "target" not in printed


def test_what_to_type_says_at_which_of_both_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "`replicator connectors resume route`, wait until `replicator lag` shows that it is 0, and repeat this"
    with pytest.raises(Refused) as refused:
        failed_back(monkeypatch, Refused("connector route is STOPPED", hint=hint))
    assert refused.value.message == "connector route is STOPPED"
    assert refused.value.hint == (
        "`replicator connectors resume route --url http://127.0.0.1:2`, wait until"
        " `replicator lag --url http://127.0.0.1:2` shows that it is 0, and repeat this"
    )
