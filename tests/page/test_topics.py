"""The views of topics: the worst first, bounded, and what is known of each queue."""

from __future__ import annotations

import re
import time

from replicator.connector.status import QueueSums
from replicator.page.context import PageContext
from replicator.page.topics import TopicViews
from replicator.state.connector_configs import State
from replicator.state.record import Kind
from replicator.state.record_types import fit
from tests.support.page import TOPIC, PagedWorker


def test_the_worst_are_first_and_pages_are_bounded(paged: PagedWorker) -> None:
    topics = [{**TOPIC, "topic": f"t{n:03}", "lag_messages": n} for n in range(120)]
    failed = {**TOPIC, "topic": "broken", "state": "FAILED", "severity": 9, "failed": 2, "reason": "no permission"}
    paged.publish(*topics, failed)
    text = paged.browser().get("/page/topics").text
    shown = re.findall(r"topic=(\w+)\"", text)
    assert shown[:3] == ["broken", "t119", "t118"]
    assert len(shown) == 50
    assert "no permission" in text
    last = paged.browser().get("/page/topics?page=3").text
    assert re.findall(r"topic=(\w+)\"", last)[-1] == "t000"
    assert "page 3 of 3" in last
    for odd in ("0", "-1", "x", "999", "9" * 30):
        assert paged.browser().get(f"/page/topics?page={odd}").status_code == 200


def test_topics_are_found_by_part_of_their_name(paged: PagedWorker) -> None:
    paged.publish(*({**TOPIC, "topic": name} for name in ("orders", "Order-history", "bills")))
    text = paged.browser().get("/page/topics?q=order").text
    assert sorted(re.findall(r"topic=([\w-]+)\"", text)) == ["Order-history", "orders"]
    assert "whose name contains “nothing”" in paged.browser().get("/page/topics?q=nothing").text


def test_a_topic_shows_its_queues_and_its_line(paged: PagedWorker) -> None:
    now = time.time()
    for n in range(10):
        progress = {("route", "orders"): (100 - 10 * n, 1000 + 500 * n)}
        paged.history.add(now - 100 + 10 * n, progress)
        paged.history.latest.add(now - 100 + 10 * n, progress, {"route"})
    state = paged.states[1]
    state.progress.position, state.progress.max_offset = 4802, 4811
    text = paged.browser().get("/page/topic?connector=route&topic=orders").text
    assert '<path class="lag" d="M' in text
    assert "lag, at most 100" in text
    assert "4,802" in text
    assert "4,811" in text
    assert "west-a/1" in text
    assert re.search(r"Copying</dt><dd>50 ", text)
    assert paged.browser().get("/page/topic?connector=route&topic=none").status_code == 404


def test_queues_of_other_workers_have_the_lag_and_the_reason_that_these_have_told(paged: PagedWorker) -> None:
    """As long as they are there."""
    (mine, others) = paged.states
    paged.states[:] = [mine]
    others.progress.position, others.progress.max_offset, others.reason = 4711, 9999, "the target is <away>"
    status = {"topics": [], "problems": {}, "queues": QueueSums.of([others]).worst(), "events": []}
    assert fit(Kind.STATUS, "w2", [1, "w2"], status, now=2e9)
    paged.store.put(Kind.STATUS, "w2", status)
    assert "&lt;away&gt;" not in paged.browser().get("/page/topic?connector=route&topic=orders").text
    paged.hear("w2")
    text = paged.browser().get("/page/topic?connector=route&topic=orders").text
    for told in ("the target is &lt;away&gt;", "9,999", "5,288"):
        assert told in text, told


def test_only_the_worst_queues_are_told(paged: PagedWorker) -> None:
    paged.map_queues("bills", 80)
    assert QueueSums.of(paged.states).worst() == []
    for number, state in enumerate(paged.states):
        state.progress.position, state.progress.max_offset = 0, number
    paged.states[0].reason = "no right"
    told = QueueSums.of(paged.states).worst()
    assert [(queue["topic"], queue["queue"]) for queue in told[:2]] == [("orders", 0), ("bills", 79)]
    assert len(told) == 50


def test_lines_show_what_is_known_and_at_most_three_hours(paged: PagedWorker) -> None:
    views = TopicViews(PageContext(paged.worker, paged.overview))
    assert views.span() == 600
    paged.history.add(time.time() - 1790, {("route", "orders"): (0, 0)})
    assert (views.span(), views.span(10_800)) == (1800, 1800)
    paged.history.add(time.time() - 9000, {("route", "orders"): (0, 0)})
    assert (views.span(), views.span(7200)) == (3600, 7200)
    assert "Lag, last 60 m" in paged.browser().get("/page/topics").text


def test_time_left_is_told_where_the_lag_shrinks(paged: PagedWorker) -> None:
    now = time.time()
    for n in range(4):
        paged.history.latest.add(now - 9 + 3 * n, {("route", "orders"): (90 - 9 * n + 3, 1000)}, {"route"})
    paged.publish({**TOPIC, "lag_messages": 30})
    assert re.search(r"Time left</dt><dd>\s*10 s", paged.browser().get("/page/topic?topic=orders").text)


def test_a_lag_that_nobody_has_watched_yet_is_not_called_growing(paged: PagedWorker) -> None:
    """It takes two points until anybody knows."""
    paged.publish({**TOPIC, "lag_messages": 30})
    for path in ("/", "/page/topics", "/page/topic?topic=orders"):
        text = paged.browser().get(path).text
        assert "not known yet" in text, path
        assert "not shrinking" not in text, path
    for n in range(2):
        paged.history.latest.add(time.time() - 5 + 5 * n, {("route", "orders"): (30, 1000 + n)}, {"route"})
    assert "not shrinking" in paged.browser().get("/page/topics").text


def test_a_paused_connector_copies_nothing(paged: PagedWorker) -> None:
    """From when it is paused, whatever was copied in the seconds before."""
    for n in range(10):
        paged.history.latest.add(time.time() - 10 + n, {("route", "orders"): (30, 1000 + 50 * n)}, {"route"})
    browser = paged.browser()
    assert re.search(r"Copying</dt><dd>50 ", browser.get("/page/topic?topic=orders").text)
    paged.connectors.set_state("route", State.PAUSED)
    for path in ("/page/topic?topic=orders", "/"):
        assert re.search(r"Copying</dt><dd>0 ", browser.get(path).text), path
