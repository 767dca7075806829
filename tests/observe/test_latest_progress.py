"""How fast topics are now: ten seconds, and nothing of what was before a pause."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from replicator.observe.latest_progress import LatestProgress, Trend

ORDERS, BILLS = ("route", "orders"), ("route", "bills")
RUNNING = {"route"}


def followed(samples: Iterable[tuple[float, float, float]]) -> LatestProgress:
    """Of one topic: when, its lag, and how many were copied."""
    latest = LatestProgress()
    for at, lag, copied in samples:
        latest.add(at, {ORDERS: (lag, copied)}, RUNNING)
    return latest


def test_a_trend_is_that_of_the_last_ten_seconds() -> None:
    """As soon as they are four seconds, and no more than ten however long it goes on."""
    latest = LatestProgress()
    for second in range(60):
        copied = 1000.0 * min(second, 30) + 100.0 * max(0, second - 30)
        latest.add(100.0 + second, {ORDERS: (90_000 - copied, copied)}, RUNNING)
        if second < 4:
            assert latest.trend(ORDERS) is None, second
        elif second <= 30:
            assert latest.trend(ORDERS) == Trend(1000.0, -1000.0), second
    assert latest.trend(ORDERS) == Trend(100.0, -100.0)
    assert latest.trend(BILLS) is None


def test_what_was_copied_before_a_pause_says_nothing_of_after_it() -> None:
    latest = followed((float(second), 20_000, 50) for second in range(5))
    for second in range(5, 8):
        latest.add(float(second), {ORDERS: (20_000, 50)}, ())
        assert latest.trend(ORDERS) is None
    for second in range(8, 13):
        copied = 50 + 700 * (second - 8)
        latest.add(float(second), {ORDERS: (20_050 - copied, copied)}, RUNNING)
    assert latest.trend(ORDERS) == Trend(700.0, -700.0)


def test_a_count_that_lacks_queues_is_no_rate_nor_is_its_return() -> None:
    """A worker is restarted: for a moment nobody tells what its queues had copied."""
    counts = [1000.0 * second for second in range(8)]
    latest = followed((float(second), 5, copied) for second, copied in enumerate(counts))
    latest.add(8.0, {ORDERS: (2, 3000.0)}, RUNNING)
    assert latest.trend(ORDERS) is None
    for second in range(9, 14):
        latest.add(float(second), {ORDERS: (5, 1000.0 * second)}, RUNNING)
    assert latest.trend(ORDERS) == Trend(1000.0, 0.0)


def test_a_count_that_stays_lower_has_a_rate_again() -> None:
    """After a minute: a connector was deleted and created again."""
    latest = followed((float(second), 0, 1000.0 if not second else 10.0 * second) for second in range(70))
    assert latest.trend(ORDERS) == Trend(10.0, 0.0)


def test_a_topic_that_is_gone_or_new_is_not_known() -> None:
    latest = followed((float(second), 1, second) for second in range(9))
    latest.add(9.0, {BILLS: (1, 1)}, RUNNING)
    assert latest.trend(ORDERS) is latest.trend(BILLS) is None


@pytest.mark.parametrize(("topics", "seconds"), [(1, 1), (10_000, 5)])
def test_samples_of_many_topics_are_further_apart(topics: int, seconds: int) -> None:
    """To add them up takes the time in which a worker copies."""
    latest = LatestProgress()
    assert latest.due(100.0)
    latest.add(100.0, {("route", str(number)): (0, 0) for number in range(topics)}, RUNNING)
    assert [latest.due(100.0 + seconds - 0.5), latest.due(100.0 + seconds)] == [False, True]


def test_a_clock_that_is_set_back_starts_it_over() -> None:
    latest = followed((1000.0 + second, 1, second) for second in range(9))
    assert latest.due(500.0)
    latest.add(500.0, {ORDERS: (1, 9)}, RUNNING)
    assert latest.trend(ORDERS) is None
