"""What the audit may cost, counted in pulls of 32 messages.

To read messages back takes as much of the CPU as to copy them in large batches, so at full load a part of them can
be read back. Small batches cost far more to copy than to read back, many at a time: at a moderate load all can be.
Counted so, the budget needs no clock of the processor and holds on every machine.
"""

from __future__ import annotations

from typing import Final

__all__ = ["AuditBudget"]

#: Pulls that a message earns, and a batch besides; `docs/PERFORMANCE.md` has what either takes of the CPU.
_MESSAGE: Final = 0.1 / 32
_BATCH: Final = 0.09
#: Pulls a second besides, so that what was copied is read again while nothing is copied: some 0.5 % of a core.
_PER_SECOND: Final = 50.0
#: Pulls that can be saved up, those that there are at first, and those above which nothing has to be spared.
_MOST: Final = 2048.0
_FIRST: Final = 512.0
_RICH: Final = 256.0
#: Segments that may wait to be read back, over all queues; a few MB.
_WAITING: Final = 20_000
#: Segments that are remembered to be read again, over all queues, and at least of each queue.
_KEPT: Final = 20_000
_KEPT_LEAST: Final = 8


class AuditBudget:
    """The pulls that the audit may make, for all queues of a worker.

    `waiting` counts segments that are to be read back, `queues` those that share in the budget.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self.queues = 0
        self._pulls = _FIRST
        self._refilled: float | None = None

    def earn(self, messages: int) -> None:
        """A batch of so many messages was sent."""
        self._pulls = min(_MOST, self._pulls + messages * _MESSAGE + _BATCH)

    def spend(self, pulls: float) -> None:
        """So many pulls were made, or will be; less than none gives some back."""
        self._pulls -= pulls

    def refill(self, now: float) -> None:
        """Adds what is free, up to `now`, a time in seconds that only grows."""
        if self._refilled is not None:
            self._pulls = min(_MOST, self._pulls + (now - self._refilled) * _PER_SECOND)
        self._refilled = now

    @property
    def may_read(self) -> bool:
        """Whether more may be read back; what was promised is read in any case."""
        return self._pulls > 0 and self.waiting < _WAITING

    @property
    def is_rich(self) -> bool:
        """Whether there is enough for small segments, and to read again what was read before."""
        return self._pulls > _RICH

    @property
    def kept(self) -> int:
        """Segments that each queue may remember."""
        return max(_KEPT_LEAST, _KEPT // max(1, self.queues))
