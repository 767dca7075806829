"""Virtual time: one queue of events for all processes of a simulated world, and each process's own clocks.

Time passes only from one event to the next, so a minute takes as long as its events. Events of one moment happen
in the order in which they were planned; everything random comes from one generator. So a seed is a run.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from enum import IntEnum
from typing import Final

__all__ = ["Kernel", "Livelock", "Process", "Urgency"]

#: Seconds since the epoch at which every world begins.
EPOCH: Final = 1_800_000_000.0


class Livelock(AssertionError):
    """Something goes on and on without waiting for anything."""


class Urgency(IntEnum):
    """What a process does first when it is continued after a pause, as an event loop does."""

    READY = 0
    ARRIVED = 1
    TIMER = 2


class Process:
    """What dies and is paused as a whole. `ahead` are the seconds by which its wall clock differs from true time.

    Its monotonic clock begins anywhere and drifts a little; it goes on while the process is paused.
    """

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.paused = False
        self.ahead = 0.0
        self._offset = kernel.random.uniform(1e3, 1e5)
        self._rate = kernel.random.uniform(0.9995, 1.0005)
        self._missed: list[tuple[Urgency, int, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self._offset + self.kernel.now * self._rate

    def at(self, monotonic: float) -> float:
        """The true time at which the monotonic clock shows that."""
        return (monotonic - self._offset) / self._rate

    def wall(self) -> float:
        return EPOCH + self.kernel.now + self.ahead

    def run(self, urgency: Urgency, number: int, do: Callable[[], object]) -> None:
        """Does it, unless the process has died; later if it is paused."""
        if not self.alive:
            return
        if self.paused:
            self._missed.append((urgency, number, do))
            return
        self.kernel.current = self
        do()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Continues with what it has missed."""
        self.paused = False
        missed, self._missed = sorted(self._missed, key=lambda each: each[:2]), []
        for urgency, _, do in missed:
            self.kernel.plan(0.0, do, self, urgency)

    def kill(self) -> None:
        """It does nothing any more."""
        self.alive = False
        self._missed.clear()


class Kernel:
    """The world's time, chance and events; `current` is the process whose event is being handled.

    Args:
        at_once: events at one moment, after which nobody believes any more that time will go on.
    """

    def __init__(self, seed: int, *, at_once: int = 200_000) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.events = 0
        self.current: Process | None = None
        self._queue: list[tuple[float, int, Process | None, Urgency, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._here = 0
        self._at_once = at_once

    def plan(
        self,
        delay: float,
        do: Callable[[], object],
        process: Process | None = None,
        urgency: Urgency = Urgency.ARRIVED,
    ) -> None:
        """`do` after `delay` seconds; what a process does is not done after its death, nor while it is paused."""
        heapq.heappush(self._queue, (self.now + max(0.0, delay), next(self._numbers), process, urgency, do))

    def run(self, until: Callable[[], bool] = lambda: False, *, seconds: float) -> bool:
        """Lets at most `seconds` pass, less where `until` says so before; whether it did.

        Raises:
            Livelock: time does not go on.
        """
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            at, number, process, urgency, do = heapq.heappop(self._queue)
            self._here = self._here + 1 if at == self.now else 0
            if self._here > self._at_once:
                raise Livelock(
                    f"{self._at_once} events at {at:.3f}, the last at {process.name if process else 'nobody'}"
                )
            self.now = at
            self.events += 1
            if process is None:
                self.current = None
                do()
            else:
                process.run(urgency, number, do)
            if until():
                return True
        self.now = end
        return until()
