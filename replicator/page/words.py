"""Numbers and times as the page writes them. Pure."""

from __future__ import annotations

import time
from typing import Final, Literal

from replicator.observe.duration import duration
from replicator.observe.moment import moment

__all__ = ["Kind", "ago", "clock", "kind_of", "number", "per_second", "size"]

#: What a state means for who looks at it; each has a shape and a colour of its own.
Kind = Literal["good", "busy", "warn", "bad", "idle"]

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("RUNNING", "yes", "ONLINE", "info"), "good"),
    **dict.fromkeys(("STARTING", "BACKFILLING", "RECOVERING", "debug"), "busy"),
    **dict.fromkeys(("WAITING", "unknown", "LEAVING", "warning", "AWAY", "SILENT", "blocked"), "warn"),
    **dict.fromkeys(("FAILED", "UNASSIGNED", "no", "missing", "error", "stalled", "NO_MASTER"), "bad"),
}
#: An en dash.
_UNKNOWN: Final = "\u2013"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB")


def kind_of(state: str) -> Kind:
    """What a state means; any other is idle."""
    return _KINDS.get(state, "idle")


def number(value: float | None) -> str:
    """With separators, a dash where it is not known."""
    return _UNKNOWN if value is None else f"{value:,.0f}"


def per_second(rate: float | None) -> str:
    """A rate: with a decimal where it is small."""
    if rate is None:
        return _UNKNOWN
    return f"{rate:,.1f}" if 0 < rate < 9.95 else f"{rate:,.0f}"


def ago(seconds: float) -> str:
    """An age: `0.3 s`, `12 s`, `4 m`."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 9.95 else duration(seconds)


def clock(at: float) -> str:
    """A time of day in UTC, with the date where that is not today's."""
    if not at:
        return "never"
    is_today = moment(at, "%F") == moment(time.time(), "%F")
    return moment(at, "%H:%M:%S UTC") if is_today else moment(at)


def size(count: float) -> str:
    """Bytes in the unit that says enough."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} {_UNITS[-1]}"
