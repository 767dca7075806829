"""Lines of the last hours: bounded, however many topics there are, and peaks stay in them."""

from __future__ import annotations

import time
from math import inf, isnan

from replicator.observe.topic_history import TopicHistory

ORDERS, BILLS = ("route", "orders"), ("route", "bills")


def test_a_rate_is_what_was_copied_between_two_points() -> None:
    history = TopicHistory()
    assert history.begun_at == inf
    assert history.line(ORDERS) == []
    for n, (lag, copied) in enumerate([(50, 1000), (40, 1500), (20, 2500)]):
        assert history.due(100.0 + 10 * n)
        history.add(100.0 + 10 * n, {ORDERS: (lag, copied)})
        assert not history.due(109.0 + 10 * n)
    first, *others = history.line(ORDERS)
    assert (first.at, first.lag, isnan(first.rate)) == (100.0, 50, True)
    assert others == [(110.0, 40, 50.0), (120.0, 20, 100.0)]


def _rates(*counts: float) -> list[float]:
    history = TopicHistory()
    for n, copied in enumerate(counts):
        history.add(10.0 * n, {ORDERS: (0, copied)})
    return [point.rate for point in history.line(ORDERS)]


def test_a_count_that_falls_and_returns_is_no_rate() -> None:
    """A worker is restarted: for a moment nobody tells what its queues had copied."""
    rates = _rates(100_000_000, 100_010_000, 50_010_000, 50_020_000, 100_040_000, 100_050_000)
    assert [rate for rate in rates if not isnan(rate)] == [1000.0, 1000.0]
    assert [n for n, rate in enumerate(rates) if isnan(rate)] == [0, 2, 3, 4]


def test_a_count_that_stays_lower_has_a_rate_again() -> None:
    """A connector was deleted and created again, or a worker had not told the last of it before it died."""
    rates = _rates(1000, *range(0, 110, 10))
    assert [n for n, rate in enumerate(rates) if not isnan(rate)] == [8, 9, 10, 11]
    assert {*rates[8:]} == {1.0}


def test_topics_come_and_go() -> None:
    history = TopicHistory(span=100.0)
    history.add(0.0, {ORDERS: (1, 0)})
    history.add(10.0, {BILLS: (2, 0)})
    history.add(20.0, {ORDERS: (3, 200), BILLS: (4, 0)})
    assert [(point.at, point.lag) for point in history.line(ORDERS)] == [(0.0, 1), (20.0, 3)]
    assert history.line(ORDERS)[-1].rate == 10.0, "over the time in which nothing was known of it"
    assert [point.at for point in history.line(BILLS)] == [10.0, 20.0]
    history.add(120.0, {BILLS: (5, 0)})
    assert history.line(ORDERS) == []
    assert [point.at for point in history.line(BILLS)] == [120.0]
    assert history.begun_at == 120.0


def test_many_topics_have_fewer_points_each_and_keep_their_peaks() -> None:
    """The span stays, so does the bound."""
    many = [("route", f"t{n}") for n in range(10)]
    history = TopicHistory(interval=1.0, span=100.0, most=100)
    for second in range(300):
        if history.due(float(second)):
            history.add(float(second), dict.fromkeys(many, (9 if second == 250 else 1, second * 7)))
    line = history.line(many[0])
    assert history.interval == 16.0
    assert len(line) * len(many) <= 100
    assert line[-1].at - line[0].at > 70
    assert {point.rate for point in line} == {7.0}


def test_a_peak_is_still_there_after_points_were_joined() -> None:
    history = TopicHistory(interval=1.0, span=8.0, most=8)
    for second in range(7):
        history.add(float(second), {ORDERS: (9 if second == 3 else 1, second)})
    history.add(7.0, {ORDERS: (1, 7), BILLS: (0, 0)})  # two topics: half as many points each
    assert history.interval == 2.0
    assert [(point.at, point.lag) for point in history.line(ORDERS)] == [(1.0, 1), (3.0, 9), (5.0, 1), (7.0, 1)]
    assert [(point.at, point.lag) for point in history.line(BILLS)] == [(7.0, 0)]


def test_to_thin_a_full_history_holds_nothing_up() -> None:
    """A worker renews its lease several times in the time that a loop in Python would take."""
    history = TopicHistory(interval=1.0, span=1000.0, most=1_000_000)
    topics = {("route", f"t{n}"): (1, 0) for n in range(999)}
    for second in range(1000):
        history.add(float(second), topics)
    begun = time.process_time()
    history.add(1000.0, {**topics, BILLS: (1, 0), ORDERS: (1, 0)})
    assert history.interval == 2.0
    assert time.process_time() - begun < 0.5


def test_a_clock_that_is_set_back_starts_it_over() -> None:
    history = TopicHistory()
    history.add(1000.0, {ORDERS: (1, 1)})
    assert history.due(500.0)
    history.add(500.0, {ORDERS: (2, 2)})
    assert [point.at for point in history.line(ORDERS)] == [500.0]
