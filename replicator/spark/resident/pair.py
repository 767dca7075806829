"""A queue of this worker that a Spark task copies, as its route sees it, and the job whose task that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

from replicator.aio.backoff import Backoff
from replicator.routing.parked import ReleasedMessages
from replicator.routing.state import Phase, QueueState
from replicator.settings import RouteSettings
from replicator.spark.resident.channel import Channel

__all__ = ["AGAIN_FIRST", "AGAIN_MOST", "ResidentPair", "ResidentRoute", "Slot"]


#: Seconds until a job that ended is submitted again, or Spark is asked again: the first time, and at most.
AGAIN_FIRST: Final = 1.0
AGAIN_MOST: Final = 30.0


class Owner(Protocol):
    """Who has Spark copy queues."""

    def add(self, pair: ResidentPair) -> None:
        """Has a Spark task copy a queue."""
        ...

    def drain(self, pair: ResidentPair) -> None:
        """Ends a queue once its task has settled it, or may not send any more."""
        ...

    async def give_up(self, pair: ResidentPair) -> None:
        """Returns when no task may send to the queue any more."""
        ...


@dataclass(frozen=True, slots=True)
class ResidentRoute:
    """A route whose queues live in Spark tasks; `rates` are messages and bytes per second, 0 for no limit.

    `late_before` and `released` are as in `RouteOptions`; what was released is known before a queue begins.
    """

    name: str
    settings: RouteSettings
    late_before: int
    rates: Callable[[], tuple[int, int]]
    released: ReleasedMessages


class ResidentPair:
    """A queue of this worker, as a route sees it: like `QueuePair`, but a Spark task copies it."""

    def __init__(
        self, state: QueueState, residents: Owner, route: ResidentRoute, *, topic: str, from_start: bool
    ) -> None:
        self.state = state
        self.topic = topic
        self.from_start = from_start
        self.route = route
        self.ended = asyncio.Event()
        self.draining = False
        #: The job that it belongs to, and whether a task was told of the queue.
        self.slot: Slot | None = None
        self.given = False
        #: Whether nothing of ours can still arrive at the target. Kept here, since the state must say no to
        #: everybody else from now on: a task may send.
        self.clean, state.progress.clean = state.progress.clean, False
        self._residents = residents

    async def run(self) -> None:
        """Until it is drained. If it is cancelled, until no task may send to the queue any more."""
        if not self.draining:
            self._residents.add(self)
            try:
                await self.ended.wait()
            except asyncio.CancelledError:
                await self._residents.give_up(self)
                raise
        self.state.set_phase(Phase.STOPPED)

    def drain(self) -> None:
        """No more pulls; what was pulled is still sent, then `run` ends."""
        self.draining = True
        self._residents.drain(self)

    def follow(self, address: str) -> None:
        """Its task looks for the source's broker by itself."""

    def recheck(self, reason: str) -> None:
        """Its task watches the target by itself."""


@dataclass(eq=False)
class Slot:
    """A job, its task, and the queues that it copies. The task may send until `granted`; the last one was lost at
    `lost_at` (both by the loop's clock).

    It is `ending` when no queue is left.
    """

    number: int
    pairs: dict[str, ResidentPair] = field(default_factory=dict)
    channel: Channel | None = None
    granted: float = -inf
    attempts: int = 0
    lost_at: float = -inf
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    backoff: Backoff = field(default_factory=lambda: Backoff(AGAIN_FIRST, AGAIN_MOST))
