"""Which queues are to be restarted: those that failed, after a while, and those that stand still. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from replicator.aio.backoff import Backoff
from replicator.routing.state import Phase, QueueState

__all__ = ["Watchdog"]

#: Seconds until a failed queue is tried again: the first time, and the most.
_RETRY_FIRST: Final = 10.0
_RETRY_MOST: Final = 300.0

#: Phases in which a queue that lags should be making progress. One that waits has said what for.
_BUSY: Final = (Phase.STARTING, Phase.RECOVERING, Phase.RUNNING)


class _Watched:
    __slots__ = ("backoff", "position", "restarted", "retry_at", "since")

    def __init__(self, position: int | None, now: float) -> None:
        self.position = position
        self.since = now
        self.restarted = False
        self.backoff = Backoff(_RETRY_FIRST, _RETRY_MOST, jitter=0.0)
        self.retry_at = 0.0


class Watchdog:
    """Watches the progress of queues.

    Args:
        stall_timeout: without progress, though something is to be copied, after which a queue is restarted.
    """

    def __init__(self, stall_timeout: float) -> None:
        self._stall_timeout = stall_timeout
        self._queues: dict[Hashable, _Watched] = {}

    def wants_restart(self, key: Hashable, state: QueueState, now: float) -> bool:
        """Whether the queue is to be restarted now; marks it as stalled when that has not helped before."""
        watched = self._queues.get(key)
        if watched is None or watched.position != state.progress.position:
            self._queues[key] = _Watched(state.progress.position, now)
            state.stalled = False
            return False
        if state.phase is Phase.FAILED:
            return self._retry(watched, now)
        if state.phase not in _BUSY or not state.progress.lag or state.throttled:
            watched.since = now
            return False
        if now - watched.since < self._stall_timeout:
            return False
        watched.since = now
        state.stalled = watched.restarted
        watched.restarted = True
        return True

    def _retry(self, watched: _Watched, now: float) -> bool:
        if not watched.retry_at:
            watched.retry_at = now + watched.backoff.next()
        if now < watched.retry_at:
            return False
        watched.retry_at = 0.0
        return True
