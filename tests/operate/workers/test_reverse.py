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
    monkeypatch: pytest.MonkeyPatch,
    refusal: Refused | None = None,
    *,
    state: str = "RUNNING",
    stopped_at: tuple[float | None, float | None] = (None, 12.5),
    **found: Any,
) -> tuple[int, str, list[str]]:
    """`failback` from west to east: its exit code, what it prints, and what it has changed.

    Args:
        state: of the route from west to east.
        stopped_at: when a failover stopped that one, and the other one.
    """
    changed = []

    def ask(rest: Rest, method: str, where: str, body: object = None) -> Any:
        if where == "/getClusterInfo":
            names = ("west", "east") if rest.url == WEST_TO_EAST else ("east", "west")
            return dict(zip(("source", "target"), names, strict=True))
        if where.endswith("/status"):
            return {"connector": {"state": state if rest.url == WEST_TO_EAST else "STOPPED"}}
        if where.endswith("/sync"):
            return {"stopped_by_failover_at": stopped_at[rest.url != WEST_TO_EAST]}
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


@pytest.mark.parametrize(
    ("state", "stopped"),
    [("STOPPED", (None, 12.5)), ("PAUSED", (None, 12.5)), ("STOPPED", (7.0, 12.5)), ("STOPPED", (None, None))],
)
def test_a_route_back_that_has_synced_no_offset_is_not_switched(
    monkeypatch: pytest.MonkeyPatch, state: str, stopped: tuple[float | None, float | None]
) -> None:
    """After a plain failover it stands still, or since a failback before that: groups would read again."""
    with pytest.raises(Refused) as refused:
        failed_back(monkeypatch, state=state, stopped_at=stopped)
    assert refused.value.message == (
        f"connector route, which copies west to east, is {state} and has not run since west is in use:"
        " no offset was synced, and groups would read messages again at east; nothing was changed"
    )
    assert refused.value.hint == (
        f"`replicator reverse --url {EAST_TO_WEST} --connector route --back-url {WEST_TO_EAST} --back-connector"
        f" route`, wait until `replicator lag --url {WEST_TO_EAST}` shows that nothing is left, and repeat this"
    )


@pytest.mark.parametrize("stopped", [(13.0, 12.5), (7.0, None)])
def test_a_failback_is_repeated(monkeypatch: pytest.MonkeyPatch, stopped: tuple[float, float | None]) -> None:
    """Whether it was interrupted before the other route was resumed or after it."""
    code, _, changed = failed_back(monkeypatch, state="STOPPED", stopped_at=stopped)
    assert code == 0
    assert changed == ["2 /connectors/route/failover", "1 /connectors/route/resume"]
