"""How late the event loop is: what keeps it from heartbeats and leases is seen here first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from replicator.observe.logging import get_logger

__all__ = ["EventLoopMonitor"]

log = get_logger(__name__)

#: Seconds between two beats, and beats that are remembered: a minute.
_BEAT: Final = 1.0
_REMEMBERED: Final = 60


class EventLoopMonitor:
    """Calls `on_beat` each second, and measures by how much it came late.

    What one of them raises is logged, and keeps none from being called, now or later: one tells systemd that the
    worker is alive.
    """

    def __init__(self, on_beat: Iterable[Callable[[], None]] = ()) -> None:
        self._on_beat = list(on_beat)
        self._delays: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def delay(self) -> float:
        """Seconds; the longest within the last minute."""
        return max(self._delays, default=0.0)

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _BEAT
            await asyncio.sleep(_BEAT)
            self._delays.append(max(0.0, loop.time() - due))
            for call in self._on_beat:
                try:
                    call()
                except Exception as error:
                    log.exception("event-loop callback failed", reason=f"{type(error).__name__}: {error}")
