"""Answers that brokers were asked for, kept for a few seconds: many who look cost no more than one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from replicator.errors import ReplicatorError

__all__ = ["Kept", "KeptAnswers"]

Answer = TypeVar("Answer")

#: Seconds for which an answer is given again, and how many times as long as it took to get at least.
_FRESH: Final = 5.0
_PAUSE: Final = 10
#: Seconds that who asks waits for a new answer, before the old one is given.
_PATIENCE: Final = 3.0


@dataclass(frozen=True, slots=True)
class Kept(Generic[Answer]):
    """What is known now.

    Attributes:
        value: the last answer; None: there never was one.
        at: when it was complete, in seconds since the epoch; 0: never.
        problem: why there is no newer one; empty: nothing stands against it.
        asking: a newer one is on its way.
    """

    value: Answer | None = None
    at: float = 0.0
    problem: str = ""
    asking: bool = False


class KeptAnswers(Generic[Answer]):
    """The last answer about each name, from `ask`; nobody asks unless somebody looks."""

    def __init__(
        self, ask: Callable[[str], Awaitable[Answer]], *, fresh: float = _FRESH, patience: float = _PATIENCE
    ) -> None:
        self._ask = ask
        self._fresh = fresh
        self._patience = patience
        self._known: dict[str, Kept[Answer]] = {}
        self._again_at: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def get(self, name: str) -> Kept[Answer]:
        """What is known of `name`: new where that takes seconds only, else as it was before."""
        if time.monotonic() >= self._again_at.get(name, 0.0):
            asking = self._asking.get(name)
            if asking is None:
                asking = self._asking[name] = asyncio.create_task(self._renew(name), name=f"look at {name}")
            done, _ = await asyncio.wait([asking], timeout=self._patience)
            if done:
                asking.result()  # an unexpected error is that of who looks
        return replace(self._known.get(name, Kept()), asking=name in self._asking)

    async def _renew(self, name: str) -> None:
        begun = time.monotonic()
        try:
            self._known[name] = Kept(await self._ask(name), time.time())
        except ReplicatorError as error:
            self._known[name] = replace(self._known.get(name, Kept()), problem=str(error))
        finally:
            ended = time.monotonic()
            self._again_at[name] = ended + max(self._fresh, _PAUSE * (ended - begun))
            self._asking.pop(name, None)
