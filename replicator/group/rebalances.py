"""Counts the times that tasks change hands, and how long it takes until each has its owner again."""

from __future__ import annotations

from replicator.group.membership import NO_GENERATION, Generation

__all__ = ["Rebalances"]


class Rebalances:
    """As one worker sees them. `going_on`: one is under way."""

    def __init__(self) -> None:
        self.count = 0
        self.going_on = False
        self._generation = NO_GENERATION
        self._seconds = 0.0
        self._since = 0.0

    def update(self, generation: Generation, now: float, *, stable: bool) -> None:
        """The assignment in force is `generation`; `stable`: everybody runs what it gives them."""
        if generation != self._generation:
            self._generation = generation
            self.count += 1
            if not self.going_on:
                self.going_on, self._since = True, now
        if self.going_on and stable:
            self._seconds += now - self._since
            self.going_on = False

    def seconds(self, now: float) -> float:
        """How long they took, including one that is under way."""
        return self._seconds + (now - self._since if self.going_on else 0.0)
