"""What this worker uses of the rate limits of connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from replicator.aio.clock import now
from replicator.routing.limiter import RateLimiter

__all__ = ["RateUses"]

#: Part of the time in which batches waited, from which on more could have been used; short waits are of bursts.
_WAITED: Final = 0.5


class _Seen(NamedTuple):
    at: float
    messages: int
    size: int
    throttled_seconds: float


class RateUses:
    """Compares what limiters have let through with what they had at the last call."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def since_last(self, limiters: Mapping[str, RateLimiter]) -> dict[str, dict[str, Any]]:
        """By connector a `RateUse`, where there is a limit, and since it is known."""
        seen = {
            name: _Seen(now(), *limiter.passed(), limiter.throttled_seconds)
            for name, limiter in limiters.items()
            if limiter.messages or limiter.size
        }
        found = {name: _use(self._seen[name], after) for name, after in seen.items() if name in self._seen}
        self._seen = seen
        return found


def _use(before: _Seen, after: _Seen) -> dict[str, Any]:
    seconds = max(1e-3, after.at - before.at)
    waited = after.throttled_seconds - before.throttled_seconds
    # One that was made again begins at 0.
    messages, size = max(0, after.messages - before.messages), max(0, after.size - before.size)
    return {
        "messages": round(messages / seconds),
        "size": round(size / seconds),
        "waited": waited > _WAITED * seconds,
    }
