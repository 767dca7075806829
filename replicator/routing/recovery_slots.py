"""How many queues check their target and source at once: so many at each broker, so that one that does not answer
keeps those of no other waiting.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final, Literal

__all__ = ["RecoverySlots"]

#: Queues at one broker: a start of thousands must not keep the event loop from the group's heartbeats.
_AT_A_BROKER: Final = 64


class RecoverySlots:
    """Those of one process."""

    def __init__(self) -> None:
        self._slots: defaultdict[tuple[str, str], asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_AT_A_BROKER)
        )

    def at(self, side: Literal["source", "target"], broker: str) -> asyncio.Semaphore:
        """Held by whoever asks `broker` of that cluster for the state of a queue."""
        return self._slots[side, broker]
