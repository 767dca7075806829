"""Which brokers are forgotten is kept by side, and whatever their names are."""

from __future__ import annotations

from replicator.state.known_brokers import forgotten, key_of, record_of
from replicator.state.record import Kind
from replicator.state.shared_state import SharedState


def test_each_side_has_its_own() -> None:
    """One of the same name at the other side is not meant, nor is one that was remembered or is being moved."""
    state = SharedState("w")
    for side, broker in (("source", "a/b"), ("target", "c"), ("target", "d")):
        state.put(Kind.BROKER, f"{side}/{broker}", {"forgotten_at": 1.0})
    state.put(Kind.BROKER, key_of("target", "d"), None)
    state.put(Kind.BROKER, "target/e", {"forgotten_at": None, "resume": {"route": "RUNNING"}})
    assert forgotten(state, "source") == {"a/b"}
    assert forgotten(state, "target") == {"c"}
    assert record_of(state, "source", "a/b") == {"forgotten_at": 1.0}
    assert record_of(state, "source", "c") is None
