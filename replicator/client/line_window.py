"""How many bytes may be under way over a connection: as many as keep its line busy, and few more.

What a poor line cannot carry piles up in front of it: each answer then waits behind all others, heartbeats too,
until requests time out and are made again. So bytes under way are limited to what the line delivers within its own
latency and half a second (the bandwidth-delay product, as in BBR, and a fixed time to queue). Pure: no I/O.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Crossing", "LineWindow"]

#: Seconds that what is under way may queue in front of the line.
_QUEUE: Final = 0.5
#: Bytes: before anything is known, and at least.
_FIRST: Final = 256 * 1024
_LEAST: Final = 64 * 1024
#: Seconds after which the best rate is forgotten, at the latest after twice as many.
_REMEMBER: Final = 5.0


class Crossing(NamedTuple):
    """A request that has, or whose answer is expected to have, `size` bytes.

    Attributes:
        began: seconds, by the window's clock.
        delivered: bytes that had ever been delivered by then.
        delivered_at: when the last of them was.
        answered: when the youngest request began that had been answered by then.
    """

    size: int
    began: float
    delivered: int
    delivered_at: float
    answered: float


class LineWindow:
    """The window of one connection.

    A line that becomes longer by more than half a second is used less until there is a new connection.

    Args:
        clock: monotonic, in seconds.

    Attributes:
        limit: bytes under way from which on others wait; the last one may exceed it.
        under_way: bytes expected.
    """

    __slots__ = (
        "_answered",
        "_before",
        "_best",
        "_clock",
        "_delivered",
        "_delivered_at",
        "_latency",
        "_turned",
        "_waiting",
        "limit",
        "under_way",
    )

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.limit = _FIRST
        self.under_way = 0
        self._delivered = 0
        self._delivered_at = self._answered = 0.0
        self._latency = math.inf
        #: Bytes a second, the most since the last turn, and between the last two; nothing before the line was full.
        self._best = self._before = 0.0
        self._turned = -math.inf
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether more may be under way, and nobody waits for that already."""
        return not self._waiting and self.under_way < self.limit

    @property
    def portion(self) -> int:
        """Bytes that a request should have at most: two fill the line, and one alone still widens the window."""
        return self.limit * 3 // 4

    def wait(self, ready: Callable[[], None]) -> None:
        """Calls `ready` when it is its turn; it should begin a crossing at once, or none."""
        self._waiting.append(ready)

    def measured(self, latency: float) -> None:
        """A small request was answered after `latency` seconds."""
        self._latency = min(self._latency, latency)

    def begin(self, size: int) -> Crossing:
        """A request is made now, room or not."""
        now = self._clock()
        if not self.under_way:  # what was before an idle time says nothing about the rate
            self._delivered_at = self._answered = now
        self.under_way += size
        return Crossing(size, now, self._delivered, self._delivered_at, self._answered)

    def end(self, crossing: Crossing, received: int) -> None:
        """`received` bytes have arrived at their end; 0: nothing will any more."""
        if received:
            now = self._clock()
            self._delivered += received
            self._learn(crossing, now)
            self._delivered_at = now
            self._answered = max(self._answered, crossing.began)
        self.under_way -= crossing.size
        while self._waiting and self.under_way < self.limit:
            self._waiting.popleft()()

    def _learn(self, crossing: Crossing, now: float) -> None:
        self._latency = min(self._latency, now - crossing.began)
        # Answers that arrive together were not carried in the moment in which they were seen; they were asked for
        # over a longer time, though. So the longer of the two counts, as in BBR.
        took = max(now - crossing.delivered_at, crossing.began - crossing.answered, 1e-6)
        rate = (self._delivered - crossing.delivered) / took
        if self.under_way * 2 > self.limit:  # the line, and not what there is to be read, sets the pace
            if now - self._turned >= _REMEMBER:
                self._best, self._before, self._turned = 0.0, self._best, now
            self._best = max(self._best, rate)
        elif rate * (self._latency + _QUEUE) <= self.limit:
            return
        else:
            self._best = max(self._best, rate)
        self.limit = max(_LEAST, int(max(self._best, self._before) * (self._latency + _QUEUE)))
