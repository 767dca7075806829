"""What happened in a simulated world, for people who look at a seed that failed: log events and faults."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import MutableMapping
from typing import Any, NamedTuple

import structlog

from tests.simulation.kernel import Kernel

__all__ = ["HistoryLog"]


class _Event(NamedTuple):
    at: float
    who: str
    what: str
    more: dict[str, Any]


class HistoryLog:
    """All events of one world; `digest` is the same for runs that are the same."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.events: list[_Event] = []

    def capture(self, *, debug: bool = False) -> None:
        """From now on all log events of this process come here, and nowhere else."""
        least = logging.DEBUG if debug else logging.INFO
        structlog.configure(
            processors=[self._take],
            wrapper_class=structlog.make_filtering_bound_logger(least),
            logger_factory=structlog.ReturnLoggerFactory(),
            cache_logger_on_first_use=False,
        )

    def _take(self, _: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        current = self._kernel.current
        what = f"{method}: {event.pop('event')}"
        event.pop("module", None)
        self.events.append(
            _Event(self._kernel.now, "nobody" if current is None else current.name, what, dict(event))
        )
        raise structlog.DropEvent

    def add(self, who: str, what: str, **more: Any) -> None:
        self.events.append(_Event(self._kernel.now, who, what, more))

    def digest(self) -> str:
        found = hashlib.sha256()
        for event in self.events:
            found.update(self._line(event).encode())
        return found.hexdigest()[:16]

    def lines(self, last: int) -> list[str]:
        return [self._line(event) for event in self.events[-last:]]

    @staticmethod
    def _line(event: _Event) -> str:
        told = " ".join(f"{name}={value}" for name, value in event.more.items() if name != "exc_info")
        return f"{event.at:9.3f} {event.who:10} {event.what} {told}".rstrip()
