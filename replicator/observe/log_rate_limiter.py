"""Rate limit of repeated log messages: the first few of a period are logged, the others counted and summed up."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final, NamedTuple

import structlog

__all__ = ["LogRateLimiter", "Suppressed"]

#: Events of one kind that are logged in a period, and its length in seconds.
_MOST: Final = 20
_PERIOD: Final = 10.0


class Suppressed(NamedTuple):
    """`times` events of one kind that were left out within `seconds`."""

    module: str
    level: str
    event: str
    times: int
    seconds: float


class LogRateLimiter:
    """A processor of structlog. Events are of one kind when module, level and text are the same.

    What somebody asked for has an `actor`. It is never a repeat, however often that is done, and never left out.

    Args:
        clock: seconds; never goes back.
    """

    def __init__(
        self, *, most: int = _MOST, period: float = _PERIOD, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._period = period
        self._clock = clock
        self._seen: dict[tuple[str, str, str], tuple[float, int]] = {}

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Lets `event` through, with how many of its kind the last period had left out; or drops it.

        Raises:
            structlog.DropEvent: there were enough of its kind in this period.
        """
        if event.get("actor"):
            return event
        kind = (str(event.get("module", "")), method, str(event["event"]))
        now = self._clock()
        begun, count = self._seen.get(kind, (now, 0))
        if now - begun >= self._period:
            if count > self._most:
                event["left_out"] = count - self._most
            begun, count = now, 0
        self._seen[kind] = (begun, count + 1)
        if count >= self._most:
            raise structlog.DropEvent
        return event

    def take(self, *, now: bool = False) -> list[Suppressed]:
        """Suppressed messages of ended periods that were not reported yet, or up to `now`; resets the count."""
        at = self._clock()
        # Of a copy, which is made in one step, since other threads log meanwhile. Under a lock its own thread could
        # still log, by a finalizer.
        over = [kind for kind, (begun, _) in self._seen.copy().items() if now or at - begun >= self._period]
        counts = {kind: self._seen.pop(kind) for kind in over}
        return [
            Suppressed(*kind, count - self._most, at - begun)
            for kind, (begun, count) in counts.items()
            if count > self._most
        ]
