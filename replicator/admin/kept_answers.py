"""Answers that brokers were asked for, kept for a few seconds: many who look cost no more than one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from replicator.errors import ReplicatorError

__all__ = ["Kept", "KeptAnswers"]

Answer = TypeVar("Answer")

#: Seconds for which an answer is given again, how many times as long as it took to get at least, and at most: where
#: a broker had not answered, it may do so now.
_FRESH: Final = 5.0
_PAUSE: Final = 10
_PAUSE_MOST: Final = 15.0
#: Seconds, and how many times as long as the last one took, after which a new answer is late, and seconds at most.
_LATE: Final = 5.0
_LATE_FACTOR: Final = 2
_LATE_MOST: Final = 15.0
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
        late: that takes longer than it should: a cluster may not answer.
    """

    value: Answer | None = None
    at: float = 0.0
    problem: str = ""
    asking: bool = False
    late: bool = False


@dataclass(slots=True)
class _Entry(Generic[Answer]):
    """What is known of a name as it is now: of another `about` nothing is."""

    about: object
    kept: Kept[Answer] = field(default_factory=Kept)
    again_at: float = 0.0
    asking: asyncio.Task[None] | None = None
    begun: float = 0.0
    took: float = 0.0

    def is_late(self) -> bool:
        enough = min(_LATE_MOST, max(_LATE, _LATE_FACTOR * self.took))
        return self.asking is not None and time.monotonic() - self.begun > enough


class KeptAnswers(Generic[Answer]):
    """The last answer about each name, from `ask`; nobody asks unless somebody looks."""

    def __init__(
        self, ask: Callable[[str], Awaitable[Answer]], *, fresh: float = _FRESH, patience: float = _PATIENCE
    ) -> None:
        self._ask = ask
        self._fresh = fresh
        self._patience = patience
        self._entries: dict[str, _Entry[Answer]] = {}

    async def get(self, name: str, about: object = None) -> Kept[Answer]:
        """What is known of `name`: new where that takes seconds only, else as it was before.

        Args:
            about: what the answer depends on; nothing is known of `name` once this is another one.
        """
        entry = self._entries.get(name)
        if entry is None or entry.about != about:
            entry = self._entries[name] = _Entry(about)
        if time.monotonic() >= entry.again_at:
            asking = entry.asking
            if asking is None:
                asking = entry.asking = asyncio.create_task(self._renew(name, entry), name=f"look at {name}")
            done, _ = await asyncio.wait([asking], timeout=self._patience)
            if done:
                asking.result()  # an unexpected error is that of who looks
        return replace(entry.kept, asking=entry.asking is not None, late=entry.is_late())

    async def _renew(self, name: str, entry: _Entry[Answer]) -> None:
        entry.begun = time.monotonic()
        try:
            entry.kept = Kept(await self._ask(name), time.time())
            entry.took = time.monotonic() - entry.begun
        except ReplicatorError as error:
            entry.kept = replace(entry.kept, problem=str(error))
        except Exception as error:  # who looks later must not take the old answer for a new one
            entry.kept = replace(entry.kept, problem=f"{type(error).__name__}: {error}")
            raise
        finally:
            ended = time.monotonic()
            entry.again_at = ended + max(self._fresh, min(_PAUSE_MOST, _PAUSE * (ended - entry.begun)))
            entry.asking = None
