"""What waits at the source, and what was released of it, in words: for the command line and for the page."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["pending_lines", "released_lines"]

#: What was done with parked messages; what was not released has lines of its own.
_RELEASED: Final = {
    "overdue": "released late",
    "on_time": "released when they were due",
    "in_timer": "given to the target's timer",
    "waiting": "to be released by this worker when they are due",
    "released_before": "released before",
    "recalled": "recalled",
    "delivered": "delivered by the source, and copied",
}
_KINDS: Final = {
    "delay": "delayed messages",
    "timer": "timer messages",
    "transaction": "half messages",
    "retry": "messages to be consumed again, which are not copied without --retry-topics",
    "dead-letter": "messages that the group has given up, which are not copied without --dlq-topics",
}
_PARKED: Final = {
    "all": ", parked at the target",
    "behind": ", not all parked at the target yet",
    "off": ", not parked at the target (`sync` with pending parks them)",
    None: "",
}


def pending_lines(pending: dict[str, Any]) -> list[str]:
    """A line for each topic and kind, for what could not be counted, and for what is not known."""
    lines = [
        f"{each['topic']}: {each['messages']:,} {_KINDS[each['kind']]}{_PARKED[each['parked']]}"
        for each in pending["messages"]
    ]
    if pending["uncounted"]:
        lines.append(f"{pending['uncounted']:,} more of any topic, which could not be read")
    return [*lines, *pending["problems"]]


def released_lines(released: dict[str, Any] | None) -> list[str]:
    """A line for each thing that a failover has done, or would do, with parked messages."""
    if released is None:
        return []
    lines = [f"{released[name]:,} {words}" for name, words in _RELEASED.items() if released[name]]
    kept = (
        f"{each['topic']}: {each['messages']:,} not released: {each['reason']}" for each in released["not_released"]
    )
    return [*lines, *kept]
