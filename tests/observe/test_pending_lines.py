"""What waits at the source is named in words that say what kind of waiting it is."""

from __future__ import annotations

from replicator.observe.pending_lines import pending_lines


def test_each_topic_and_kind_has_a_line() -> None:
    messages = [{"topic": "a", "kind": kind, "messages": 1200} for kind in ("delay", "timer", "transaction")]
    assert pending_lines({"messages": messages, "uncounted": 2, "problems": ["what waits at b is not known"]}) == [
        "a: 1,200 delayed messages",
        "a: 1,200 timer messages",
        "a: 1,200 half messages",
        "2 more of any topic, which could not be read",
        "what waits at b is not known",
    ]
    assert pending_lines({"messages": [], "uncounted": 0, "problems": []}) == []
