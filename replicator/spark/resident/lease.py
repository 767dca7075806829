"""The lease of a Spark task: it may send for a while after its owner has said so.

The owner says for how long, out of what is left of its own lease, and the task counts that from when it asked, by
its own clock, which also runs while its machine sleeps. So the task's lease is never longer than its owner's.
"""

from __future__ import annotations

import asyncio
from math import inf

from replicator.aio.clock import now

__all__ = ["GrantedLease"]


class GrantedLease:
    """What the owner has granted, by the reports that it has answered."""

    def __init__(self) -> None:
        self._asked: dict[int, float] = {}
        self._until = -inf
        self._granted = asyncio.Event()

    def holds(self) -> bool:
        """Whether the task may send now."""
        return now() <= self._until

    @property
    def silence(self) -> float:
        """Seconds since the oldest report was sent that the owner has not answered; 0 if it has answered all."""
        return now() - min(self._asked.values()) if self._asked else 0.0

    def ask(self, sequence: int) -> None:
        """The report `sequence` is sent now."""
        self._asked[sequence] = now()

    def grant(self, sequence: int, seconds: float) -> None:
        """The owner's answer to the report `sequence`."""
        asked = self._asked.pop(sequence, None)
        for older in [each for each in self._asked if each < sequence]:
            del self._asked[older]
        if asked is None or seconds <= 0.0:
            return
        self._until = max(self._until, asked + seconds)
        if self.holds():
            self._granted.set()

    async def granted(self) -> None:
        """Returns when the task may send."""
        while not self.holds():
            self._granted.clear()
            await self._granted.wait()
