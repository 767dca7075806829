"""The last events that this process has logged, for people who look at it and cannot read its log."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from replicator.observe.printable import one_line

__all__ = ["Event", "RecentEvents", "recent_events"]

#: Events that are kept, of those that somebody asked for and of the others each, and characters of a value in one.
_KEPT: Final = 500
_VALUE: Final = 500
#: Events that others are told of, details of each, and characters of a line.
_NOTICED: Final = 30
_DETAILS: Final = 8
_LINE: Final = 200
#: What of an audit entry is not a detail of its event as it is.
_RECALLED: Final = frozenset({"at", "worker", "what", "actor", "before", "after"})
#: The one change of a connector that is not logged as a warning; those of the target are not, either.
_QUIET: Final = "connector created"
#: What is not shown beside its message.
_OWN: Final = frozenset({"event", "level", "timestamp", "actor", "exc_info", "module"})


class Event(NamedTuple):
    """One event. `id` numbers them from 1; `at` is in ISO 8601; `actor` is who asked for it, empty: nobody did."""

    id: int
    at: str
    level: str
    event: str
    actor: str
    details: Mapping[str, str]


class RecentEvents:
    """A processor of structlog that remembers what passes, after secrets were taken out of it.

    However many warnings there are in an incident, what people asked for before it stays.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._asked_for: deque[Event] = deque(maxlen=kept)
        self._others: deque[Event] = deque(maxlen=kept)
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        details = {name: _shown(value) for name, value in event.items() if name not in _OWN}
        with self._lock:
            self._last += 1
            found = Event(
                self._last,
                str(event.get("timestamp", "")),
                str(event.get("level", method)),
                _shown(event.get("event", "")),
                str(event.get("actor", "")),
                details,
            )
            (self._asked_for if found.actor else self._others).append(found)
        return event

    def recall(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Remembers what people have asked earlier processes for, as `Audit.asked_for` gives it."""
        for entry in entries:
            before, after = entry.get("before"), entry.get("after")
            told = {name: value for name, value in entry.items() if name not in _RECALLED and value not in ("", [])}
            if isinstance(before, dict) and isinstance(after, dict):
                told["differ"] = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
            else:
                told |= {name: each for name in ("before", "after") if isinstance(each := entry.get(name), str)}
            told |= {"event": entry.get("what", "target changed"), "actor": entry["actor"]}
            at = datetime.fromtimestamp(entry["at"], UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            level = "info" if entry.get("what", _QUIET) == _QUIET else "warning"
            self(None, level, {**told, "timestamp": at})

    @property
    def last(self) -> int:
        """The number of the newest; 0: there is none."""
        return self._last

    def noticed(self, number: int) -> list[dict[str, Any]]:
        """Of those with a higher number the last that others should see, oldest first, on one line each: warnings,
        errors, and what somebody asked for.
        """
        found = [event for event in self.after(number) if event.actor or event.level in ("warning", "error")]
        return [
            {
                "at": event.at,
                "level": event.level,
                "event": _line(event.event),
                "actor": _line(event.actor),
                "details": {_line(name): _line(event.details[name]) for name in list(event.details)[:_DETAILS]},
            }
            for event in found[-_NOTICED:]
        ]

    def after(self, number: int) -> list[Event]:
        """Those with a higher number, oldest first; all that are kept where no event has had that number yet."""
        with self._lock:
            events = [*heapq.merge(self._asked_for, self._others)]  # by their numbers, which come first
            return [event for event in events if event.id > number or number > self._last]


def _line(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LINE else f"{line[:_LINE]}…"


def _shown(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


#: Those of this process.
recent_events: Final = RecentEvents()
