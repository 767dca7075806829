"""The views of one route: readiness, plan and configuration, each with its age or its defaults."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from replicator.connector.route import Route
from replicator.page.route import differing
from tests.support.page import READY, PagedWorker

STEP = {
    "kind": "topics",
    "action": "update",
    "broker": "west-a",
    "name": "orders",
    "note": "",
    "before": {"queues": 4},
    "after": {"queues": 8},
    "blocked": "it was changed manually",
}


def test_readiness_names_each_group(paged: PagedWorker) -> None:
    group = {**READY["groups"][0], "group": "stuck", "missed": 12}
    paged.readiness = {**READY, "groups": [*READY["groups"], group]}
    text = paged.browser().get("/page/readiness").text
    assert "goes on where it is" in text
    assert re.search(r"stuck</th>.*?misses messages", text, re.DOTALL)
    assert re.search(r"seen 0\.\d s ago", text)


def test_the_plan_says_what_is_not_done_and_why(paged: PagedWorker) -> None:
    assert "Nothing is to be changed" in paged.browser().get("/page/metadata").text
    paged.plan = [STEP]
    text = paged.browser().get("/page/metadata").text
    assert "it was changed manually" in text
    assert "topic orders" in text


def test_what_was_changed_at_the_target_is_listed(paged: PagedWorker) -> None:
    status = {"at": 1000.0, "applied": 3, "blocked": 0, "drift": 1, "failed": 0, "reasons": []}
    done = {**STEP, "at": 1000.0, "worker": "w1", "connector": "route", "error": ""}
    later = {**done, "name": "later", "error": "refused", "actor": "page 10.0.0.7 (operate)"}
    records: dict[str, Any] = {"audit": {"entries": [done, later]}}
    route = object.__new__(Route)
    route.sync = SimpleNamespace(  # type: ignore[assignment]
        status={"owner": "w1", "kinds": {"topics": status}}, ledger=SimpleNamespace(get=records.__getitem__)
    )
    paged.route = route
    text = paged.browser().get("/page/metadata").text
    assert text.index("topic later") < text.index("topic orders"), "the newest first"
    assert re.search(r"topic later</th><td>west-a</td><td>page 10\.0\.0\.7 \(operate\)</td>", text)
    assert re.search(r"topic orders</th><td>west-a</td><td>\u2013</td>", text), "nobody has asked for it"
    assert "refused" in text
    assert "in sync" in text


def test_only_a_form_of_ours_says_what_was_done(paged: PagedWorker) -> None:
    browser, path = paged.browser(), "/page/connector?connector=route&done=paused"
    assert "Done: paused" in browser.get(path).text
    assert "Done: paused" not in browser.get(path, headers={"sec-fetch-site": "cross-site"}).text


def test_settings_that_differ_from_their_defaults_come_first(paged: PagedWorker) -> None:
    paged.connectors.update("route", {"topics": ["orders"], "rate_messages": 500})
    shown = differing(paged.connectors.get("route"))
    assert [(each["name"], each["value"], each["default"]) for each in shown if each["differs"]] == [
        ("rate_messages", "500", "0"),
        ("topics", "orders", ".*"),
    ]
    assert [each["differs"] for each in shown] == sorted((each["differs"] for each in shown), reverse=True)
