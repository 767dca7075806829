"""The actions of a plan that nothing blocks, one after the other, or several at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import takewhile
from typing import Final, TypeVar

from replicator.aio.bounded import bounded
from replicator.metadata.action import Action
from replicator.metadata.syncer import Applied

__all__ = ["each_possible", "would_apply"]

T = TypeVar("T")

#: Offsets that are committed at the same time.
_COMMITS: Final = 16


async def each_possible(
    kind: str,
    actions: Iterable[Action],
    apply: Callable[[Action], Awaitable[T]],
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[T]:
    """What `apply` gives for those that are possible, in their order; offsets, which are of a place each, several
    at once. None more is begun once it may not go on.
    """
    possible = takewhile(lambda _: may_go_on(), (action for action in actions if not action.blocked))
    return await bounded(apply, possible, at_once=_COMMITS if kind == "offsets" else 1)


async def would_apply(action: Action) -> Applied:
    """As of an action that works, for a look at what would be done."""
    return Applied(action, "")
