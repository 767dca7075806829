"""What a worker's loop has to do at its next turn, noted by the parts that find out."""

from __future__ import annotations

import asyncio
from typing import Final

from replicator.aio.set_within import set_within

__all__ = ["Agenda"]

#: Seconds between two turns when nothing happens.
_STEP: Final = 0.25


class Agenda:
    """Wakes the loop, and says what for."""

    def __init__(self) -> None:
        #: Connectors have changed, or a task that stood in the way of a change has ended.
        self.reconcile = False
        #: The connectors are to be planned again: brokers were forgotten or are back, or the target is not ready.
        self.plan = False
        #: There is something new to make ready at the target.
        self.make_ready = False
        #: The group has lost what was published to it.
        self.publish_all = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """The coordinator may decide something else now."""
        self._woken.set()

    def wants_reconcile(self) -> None:
        """The connectors are to be followed."""
        self.reconcile = True
        self.wake()

    def wants_publish_all(self) -> None:
        """All that is known is to be published again."""
        self.publish_all = True
        self.wake()

    async def next_turn(self) -> None:
        """Returns when something has happened since the last turn, or a moment has passed."""
        await set_within(self._woken, _STEP)

    def begin_turn(self) -> None:
        """Whatever happens from now on is for the turn after this one."""
        self._woken.clear()
