"""A token bucket for messages and bytes per second; its rates can be changed while it runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

__all__ = ["RateLimiter", "part_of"]

#: Seconds slept at least; what rounding leaves of a wait may be less than the clock's resolution.
_TICK: Final = 0.001

#: Seconds' worth of tokens that one batch should cost at most: with more, a low rate is one of bursts and pauses.
_PORTION: Final = 0.25
#: Seconds' worth of tokens that may pile up while nothing is sent.
_BURST: Final = 0.1


class RateLimiter:
    """Shared by all queues of a route.

    A batch is let through while there is credit, and what it costs is taken then, even into debt: so a
    batch larger than a second's worth passes too, and the average holds.

    Args:
        messages, size: per second; 0 is no limit. `size` counts bytes as sent.
    """

    def __init__(self, messages: int = 0, size: int = 0) -> None:
        self._rates = [float(messages), float(size)]
        self._credit = [0.0, 0.0]
        self._at = 0.0
        self._passed = [0, 0]
        self.throttled_seconds = 0.0

    @property
    def messages(self) -> int:
        return int(self._rates[0])

    @property
    def size(self) -> int:
        return int(self._rates[1])

    @property
    def portion(self) -> tuple[float, float]:
        """Messages and bytes that a batch should have at most."""
        messages, size = (rate * _PORTION or math.inf for rate in self._rates)
        return messages, size

    def set(self, messages: int, size: int) -> None:
        """Changes the rates; those that wait notice it at their next check.

        A debt is paid off as soon as it would have been, but in a portion's time at most.
        """
        rates = [float(messages), float(size)]
        for i, (before, after) in enumerate(zip(self._rates, rates, strict=True)):
            self._credit[i] = max(self._credit[i] / before, -_PORTION) * after if before else 0.0
        self._rates = rates

    def passed(self) -> tuple[int, int]:
        """Messages and bytes that were let through while there was a limit."""
        messages, size = self._passed
        return messages, size

    async def acquire(self, messages: int, size: int, *, given_up: Callable[[], bool] = lambda: False) -> bool:
        """Waits until a batch of `messages` and `size` bytes may go; False if it was given up while it waited."""
        if not self._rates[0] and not self._rates[1]:
            return True
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            while (wait := self._wait(loop.time())) > 0:
                if given_up():
                    return False
                await asyncio.sleep(min(max(wait, _TICK), 0.25))
        finally:
            self.throttled_seconds += loop.time() - started
        for i, cost in enumerate((messages, size)):
            self._credit[i] -= cost
            self._passed[i] += cost
        return True

    def _wait(self, now: float) -> float:
        """Seconds until both credits are positive, after adding what has accrued since the last call."""
        passed = now - self._at
        self._at = now
        wait = 0.0
        for i, rate in enumerate(self._rates):
            if rate:
                self._credit[i] = min(rate * _BURST, self._credit[i] + passed * rate)
                wait = max(wait, -self._credit[i] / rate)
        return wait


def part_of(limit: int, part: float) -> int:
    """A part of a limit that several share; 0, no limit, stays so."""
    return max(1, round(limit * part)) if limit else 0
