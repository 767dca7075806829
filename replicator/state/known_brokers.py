"""What the group has decided about brokers of either cluster: which ones it treats as gone for good. Pure."""

from __future__ import annotations

from typing import Any, Final, Literal

from replicator.state.record import Kind
from replicator.state.shared_state import SharedState

__all__ = ["Side", "being_given_up", "forgotten", "key_of", "record_of"]

Side = Literal["source", "target"]
_SIDES: Final[tuple[Side, ...]] = ("source", "target")


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


def being_given_up(state: SharedState) -> frozenset[tuple[Side, str]]:
    """Brokers for which connectors were stopped and have not been given their states again."""
    return frozenset(
        (side, key.removeprefix(f"{side}/"))
        for key, value in state.items(Kind.BROKER).items()
        for side in _SIDES
        if key.startswith(f"{side}/") and value.get("resume")
    )
