"""Lists in a log line: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["excerpt"]

#: Items that a line names.
_FEW: Final = 5


def excerpt(items: Iterable[str], *, few: int = _FEW) -> str:
    """The first of `items`, in their order, and the count of those that are left out."""
    found = list(items)
    more = len(found) - few
    return ", ".join(found[:few]) + (f" and {more} more" if more > 0 else "")
