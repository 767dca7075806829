"""The views of the whole group: the verdict, who is there, what is wrong, who did what."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
import structlog

from replicator.admin.kept_answers import Kept, KeptAnswers
from replicator.group.membership import MemberState
from replicator.observe.logging import get_logger
from replicator.state.record import Kind
from tests.support.page import READY, TOPIC, PagedWorker


def test_the_overview_says_yes_with_what_is_on_its_way(paged: PagedWorker) -> None:
    lag = {**READY["topics"][0], "messages": 3, "seconds": 0.2}
    paged.readiness = {**READY, "topics": [lag], "reasons": ["topic orders: 3 messages are not at the target yet"]}
    text = paged.browser().get("/").text
    assert re.search(r"</svg> Yes</span>", text)
    assert "up to 3 messages are on their way" in text
    assert re.search(r"checked 0\.\d s ago</p>", text)


def test_an_old_answer_says_that_a_new_one_is_on_its_way(
    paged: PagedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a broker hangs: who looks must not think that nobody asks any more."""
    browser = paged.browser()

    async def get(*_: object) -> Kept[dict[str, Any]]:
        return Kept({**READY}, time.time() - 21.0, asking=True)

    monkeypatch.setattr(KeptAnswers, "get", get)
    assert re.search(r"checked 2[12] s ago, being checked again</p>", browser.get("/").text)

    async def first(*_: object) -> Kept[dict[str, Any]]:
        return Kept(asking=True)

    monkeypatch.setattr(KeptAnswers, "get", first)
    assert re.search(r" · being checked</p>", browser.get("/").text)


def test_the_overview_says_no_and_why(paged: PagedWorker) -> None:
    paged.publish({**TOPIC, "state": "FAILED", "failed": 2, "severity": 9, "reason": "no permission <SUB>"})
    text = paged.browser().get("/").text
    assert re.search(r"</svg> No</span>", text)
    assert "topic orders: 2 of 2 queues have failed: no permission &lt;SUB&gt;" in text


def test_figures_that_nobody_reports_are_not_zero(paged: PagedWorker) -> None:
    paged.publish()
    text = paged.browser().get("/").text
    assert "not known: no worker reports a topic of it now" in text
    assert "<dt>Copied</dt>" not in text


def test_queues_that_nobody_has_made_are_explained(paged: PagedWorker) -> None:
    """A topic with two queues, and the brokers' own in which messages wait."""
    paged.publish(TOPIC)
    assert re.search(r"Failed queues</dt><dd>0 <[^>]+>of 2<", paged.browser().get("/").text)
    paged.publish(TOPIC, {**TOPIC, "topic": "SCHEDULE_TOPIC_XXXX", "queues": 18})
    text = paged.browser().get("/").text
    assert text.count("of 20, 18 of them for delays and timers") == 2


def test_a_worker_that_is_missing_is_named(paged: PagedWorker) -> None:
    paged.assign({"route/orders": "w2"})
    for path in ("/", "/page/workers"):
        assert "w2" in paged.browser().get(path).text
    assert re.search(r"</svg> Not known</span>", paged.browser().get("/").text)


def test_only_of_a_worker_that_leaves_its_state_is_told(paged: PagedWorker) -> None:
    """That one is there is what its shape says."""
    paged.hear("w2")
    assert ", ONLINE" not in paged.browser().get("/").text
    paged.others["w2"] = replace(paged.others["w2"], stage=MemberState.LEAVING)
    assert ", LEAVING" in paged.browser().get("/").text


def test_errors_are_listed_with_their_reasons(paged: PagedWorker) -> None:
    assert "Nothing has failed, and nothing waits." in paged.browser().get("/page/errors").text
    paged.publish(
        {
            **TOPIC,
            "state": "WAITING",
            "waiting": 1,
            "severity": 8,
            "reason": "the target is away",
            "gap_messages": 7,
        },
        problems={"bills": "the target has it with fewer queues"},
    )
    paged.states[0].counters.skipped["filter"] = 41
    paged.connectors.update("route", {"topics": ["orders"], "on_error": "dead-letter"})
    text = paged.browser().get("/page/errors").text
    assert re.search(r"<b>filter</b> 41<", text)
    for told in ("the target is away", "fewer queues", "Missing at the source", "replicator_sys_dead_letter"):
        assert told in text, told


def test_events_name_who_asked_for_it(paged: PagedWorker) -> None:
    log = get_logger("replicator.canary")
    with structlog.contextvars.bound_contextvars(actor="page 10.0.0.7 (operate)"):
        log.warning("canary paused", connector="route")
    log.info("canary by itself")
    browser = paged.browser()
    assert "page 10.0.0.7 (operate)" in browser.get("/page/events").text
    by_people = browser.get("/page/events?by=people").text
    assert ("canary paused" in by_people, "canary by itself" in by_people) == (True, False)
    warnings = browser.get("/page/events?level=warning").text
    assert ("canary paused" in warnings, "canary by itself" in warnings) == (True, False)
    assert "canary by itself" in browser.get("/page/events?level=nonsense").text


def test_of_an_event_what_is_empty_is_left_out(paged: PagedWorker) -> None:
    get_logger("replicator.canary").warning("canary failed over", topics=[], drained=True, problems=[])
    text = paged.browser().get("/page/events").text
    (row,) = [row for row in text.split("<tr>") if "canary failed over" in row]
    assert re.findall(r"<b>(\w+)</b>", row) == ["drained"]


def test_what_other_workers_have_noticed_is_there_too(paged: PagedWorker) -> None:
    """Only of workers that are there; the newest first."""
    told = {"level": "warning", "actor": "page 10.0.0.8 (admin)", "details": {"connector": "route"}}
    early, late = (told | {"at": f"20{year}-01-01T00:00:00Z", "event": f"of {year}"} for year in (20, 99))
    paged.hear("w2")
    for worker in ("w2", "w3"):
        status = {"topics": [], "problems": {}, "queues": [], "events": [early, late]}
        paged.store.put(Kind.STATUS, worker, status)
    get_logger("replicator.canary").warning("canary here")
    for path in ("/page/events", "/page/events?by=people", "/page/events?level=warning"):
        text = paged.browser().get(path).text
        assert text.count("<td>w2</td>") == 2
        assert "<td>w3</td>" not in text
        assert text.index("of 99") < text.index("of 20")
    assert text.index("of 99") < text.index("canary here") < text.index("of 20")
    assert "of 99" in paged.browser().get("/").text


def test_a_source_that_has_died_is_said_first(paged: PagedWorker) -> None:
    """By a worker that runs, too; what follows from it for each topic and for the group is not."""
    worker: Any = paged.worker
    worker.refresher.source_away, worker.may_send = "a:9876 cannot be reached (refused)", lambda: False
    until = {"broker": "a", "queue": 0, "position": 3, "copied_until": 1764000000.0}
    problem = "the end of the source queue is not known: a:10911 cannot be reached"
    lag = {**READY["topics"][0], "problem": problem, "unknown_queues": [until]}
    loss = "queue orders/a/0: the target has lost messages that it had acknowledged"
    reasons = [loss, f"topic orders: {problem}", "offsets at a: a:10911 cannot be reached"]
    paged.readiness |= {"ready": False, "reasons": reasons, "topics": [lag]}
    paged.browser().get("/")  # has the clusters asked
    text = paged.browser().get("/").text
    assert text.index("the source cannot be reached, so nothing is copied") < text.index(loss)
    assert "a:9876 cannot be reached (refused)" in text
    assert "the last copied message was stored at 2025-11-24 16:00:00 UTC" in text
    assert "fail over and say so (`--source-dead`)" in text
    assert "a:10911" not in text
    assert "does not reach its group" not in text
