"""Whether a heartbeat was just written, or is a copy of an old one that somebody has written again. Pure.

Each heartbeat names the last heartbeat of its own worker that had come back: the broker, and when that broker had
stored it. So it was written later than that, by that broker's clock, which no writer of messages can set. Both
times that are compared are of the same broker: what it had stored when we read of it last.

Copies of one queue are told by their counters: each counter of a process comes once in a queue. They need not come
in order, since a broker may store two requests of one connection in either order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from replicator.routing.message_queue import MessageQueue

__all__ = ["Echo", "Freshness", "ReplayWindow"]

#: Counters of one process below its highest that may still come, and processes that are remembered.
_WIDTH: Final = 4096
_PROCESSES: Final = 4096


class Echo(NamedTuple):
    """When `broker` had stored a heartbeat that came back, in milliseconds by its clock."""

    broker: str
    stored: int


class Freshness:
    """What brokers' clocks showed last, as far as their messages were read."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def age(self, broker: str, stored: int, echo: Echo | None) -> float:
        """Seconds from `echo` until a message with it was stored at `broker`; 0 if nothing tells.

        A process has no echo in its first heartbeats.
        """
        self._last[broker] = stored
        if echo is None:
            return 0.0
        until = stored if echo.broker == broker else self._last.get(echo.broker, 0)
        return max(0, until - echo.stored) / 1000


class ReplayWindow:
    """The counters that were seen of each process in each queue."""

    def __init__(self) -> None:
        self._seen: dict[tuple[MessageQueue, str], tuple[int, int]] = {}

    def admits(self, queue: MessageQueue, incarnation: str, counter: int) -> bool:
        """Whether `counter` comes for the first time; from then on it does not."""
        key = queue, incarnation
        highest, seen = self._seen.pop(key, (0, 0))  # what is used goes to the end
        if counter > highest:
            ahead = counter - highest
            seen = (seen << ahead | 1) & ((1 << _WIDTH) - 1) if ahead < _WIDTH else 1
            highest, fresh = counter, True
        else:
            bit = highest - counter
            fresh = bit < _WIDTH and not seen >> bit & 1
            seen |= int(fresh) << bit if fresh else 0
        self._seen[key] = highest, seen
        if len(self._seen) > _PROCESSES:
            del self._seen[next(iter(self._seen))]
        return fresh
