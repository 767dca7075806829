"""What was written just now differs from what somebody has written again."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from replicator.group.freshness import Echo, Freshness, ReplayWindow
from replicator.routing.message_queue import MessageQueue

A, B = MessageQueue("online", "a", 0), MessageQueue("online", "b", 0)


def test_age_is_measured_by_the_clock_of_one_broker() -> None:
    """However far the clocks of two brokers are apart."""
    view = Freshness()
    assert view.age("a", 5_000, None) == 0
    assert view.age("a", 6_000, Echo("a", 5_000)) == 1
    assert view.age("b", 900_000, Echo("a", 5_500)) == 0.5, "a was at 6,000 then"
    assert view.age("a", 70_000, Echo("b", 840_000)) == 60
    assert view.age("a", 71_000, Echo("unknown", 1)) == 0, "nothing tells"
    assert view.age("a", 1_000, Echo("a", 5_000)) == 0, "the clock went back"


@given(st.lists(st.integers(1, 10**15), unique=True, max_size=60))
def test_each_counter_is_admitted_once_in_a_queue(counters: list[int]) -> None:
    """Those far below the highest are not; another queue and another process have counters of their own."""
    window, highest = ReplayWindow(), 0
    for counter in counters:
        assert window.admits(A, "one", counter) == (counter > highest - 4096)
        highest = max(highest, counter)
        assert not window.admits(A, "one", counter)
    for counter in sorted(counters):
        assert window.admits(B, "one", counter)
        assert window.admits(A, "two", counter)


def test_requests_that_a_broker_stores_in_another_order_are_admitted() -> None:
    counters = list(range(1, 1001))
    random.Random(5).shuffle(counters)
    window = ReplayWindow()
    assert all(window.admits(A, "one", counter) for counter in counters)
    assert not any(window.admits(A, "one", counter) for counter in counters)


def test_memory_is_bounded() -> None:
    window = ReplayWindow()
    for number in range(10_000):
        assert window.admits(A, str(number), 2**62)
        assert window.admits(A, "live", number + 1)
    assert len(window._seen) <= 4096
    assert not window.admits(A, "live", 10_000), "what is used stays"
