"""Numbers of things, in words."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """`1 message`, `4,702 messages`; `noun` may go on with a verb: `1 message is`, `2 messages are`."""
    word, _, verb = noun.partition(" ")
    many = f"{word}{'' if number == 1 else 's'}"
    return f"{number:,} {many}" + (f" {verb if number == 1 else 'are'}" if verb else "")
