"""A member of a group, without the worker that would act on what it hears."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from replicator.group.coordinator import Coordinator
from replicator.group.member import Group, Topics
from replicator.group.signature import Signer
from replicator.state.store import Store

__all__ = ["TOPICS", "member_of"]

TOPICS: Final = Topics("source-online", "sink-online", "control")


def member_of(
    coordinator: Coordinator,
    store: Store,
    *,
    topics: Topics = TOPICS,
    signer: Signer | None = None,
    waits_for: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> Group:
    """Worker `coordinator.me` in the group g; as of `Group`."""
    return Group(
        *("g", coordinator, store, topics),
        signer=signer or Signer(),
        waits_for=waits_for,
        on_change=lambda: None,
        on_records=lambda _: None,
        on_lost=lambda: None,
    )
