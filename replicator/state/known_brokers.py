"""What the group has decided about brokers of either cluster: which ones it treats as gone for good. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from replicator.state.record import Kind
from replicator.state.shared_state import SharedState

__all__ = ["Side", "being_given_up", "forgotten", "key_of", "record_of", "record_value"]

Side = Literal["source", "target"]


def key_of(side: Side, broker: str) -> str:
    """The key of a broker's record."""
    return f"{side}/{broker}"


def record_of(state: SharedState, side: Side, broker: str) -> dict[str, Any] | None:
    """What is kept of a broker, as in `record_values.Broker`; None: nothing."""
    found: dict[str, Any] | None = state.get(Kind.BROKER, key_of(side, broker))
    return found


def forgotten(state: SharedState, side: Side) -> frozenset[str]:
    """The forgotten brokers of a cluster."""
    prefix = f"{side}/"
    return frozenset(
        key.removeprefix(prefix)
        for key, value in state.items(Kind.BROKER).items()
        if key.startswith(prefix) and value["forgotten_at"] is not None
    )


def being_given_up(state: SharedState) -> dict[str, Mapping[str, str]]:
    """By the key of a broker, the connectors that are stopped to move its queues, each with its state before."""
    return {key: resume for key, value in state.items(Kind.BROKER).items() if (resume := value.get("resume"))}


def record_value(forgotten_at: float | None, resume: Mapping[str, str]) -> dict[str, Any] | None:
    """What is to be kept of a broker; None: nothing."""
    return {"forgotten_at": forgotten_at, "resume": dict(resume)} if forgotten_at or resume else None
