"""What waits at the source, in words: for the command line and for the page."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["pending_lines"]

_KINDS: Final = {"delay": "delayed messages", "timer": "timer messages", "transaction": "half messages"}


def pending_lines(pending: dict[str, Any]) -> list[str]:
    """A line for each topic and kind, for what could not be counted, and for what is not known."""
    lines = [f"{each['topic']}: {each['messages']:,} {_KINDS[each['kind']]}" for each in pending["messages"]]
    if pending["uncounted"]:
        lines.append(f"{pending['uncounted']:,} more of any topic, which could not be read")
    return [*lines, *pending["problems"]]
