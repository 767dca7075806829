"""What waits at the source is named in words that say what kind of waiting it is."""

from __future__ import annotations

from replicator.observe.pending_lines import pending_lines, released_lines


def test_each_topic_and_kind_has_a_line() -> None:
    """With how far it is parked at the target, where it can be."""
    told = [("delay", "all"), ("timer", "behind"), ("delay", "off"), ("transaction", None)]
    messages = [{"topic": "a", "kind": kind, "messages": 1200, "parked": parked} for kind, parked in told]
    assert pending_lines({"messages": messages, "uncounted": 2, "problems": ["what waits at b is not known"]}) == [
        "a: 1,200 delayed messages, parked at the target",
        "a: 1,200 timer messages, not all parked at the target yet",
        "a: 1,200 delayed messages, not parked at the target (`sync` with pending parks them)",
        "a: 1,200 half messages",
        "2 more of any topic, which could not be read",
        "what waits at b is not known",
    ]
    assert pending_lines({"messages": [], "uncounted": 0, "problems": []}) == []


def test_released_ones_are_counted_by_what_became_of_them() -> None:
    found = dict.fromkeys(
        ("overdue", "on_time", "in_timer", "waiting", "released_before", "recalled", "delivered"), 0
    )
    left = [{"topic": "a", "messages": 2, "reason": "the target refuses it"}]
    assert released_lines({**found, "in_timer": 1900, "recalled": 100, "not_released": left, "until": None}) == [
        "1,900 given to the target's timer",
        "100 recalled",
        "a: 2 not released: the target refuses it",
    ]
    assert released_lines(None) == []
