"""What others have written, as it can be shown: it changes nothing that a terminal shows, and hides nothing."""

from __future__ import annotations

__all__ = ["one_line", "printable"]


def one_line(text: str) -> str:
    """`text` with a space for each character that is not seen: controls, line ends, what turns its direction."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def printable(text: str) -> str:
    """The same, but for its line breaks."""
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))
