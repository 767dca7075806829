"""Where the history of a source queue parts from what was copied of it.

A queue that was truncated has what was copied up to some offset, and other messages from there on. Store times find
that offset whatever the clock of the broker says that has stored the others: they only have to differ.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from itertools import accumulate

from replicator.routing.offset_map import OffsetMap

__all__ = ["last_common"]


async def last_common(copies: OffsetMap, holds: Callable[[int, int], Awaitable[bool | None]]) -> int | None:
    """The source offset of the last of `copies` that the source still has as it was copied; None: none can be seen.

    Args:
        holds: whether the message at a source offset is the one at a target offset; None: retention, which takes
            the oldest, has deleted one of them.
    """
    runs = list(copies)
    ends = list(accumulate(run.length for run in runs))

    def offsets_of(index: int) -> tuple[int, int]:
        """Both offsets of a copy, counted from the oldest."""
        run = runs[bisect_right(ends, index)]
        inside = index - ends[bisect_right(ends, index)] + run.length
        return run.source + inside, run.target + inside

    common: int | None = None
    low, high = 0, ends[-1] if ends else 0
    while low < high:
        middle = (low + high) // 2
        source, target = offsets_of(middle)
        found = await holds(source, target)
        if found is False:
            high = middle
        else:
            low = middle + 1
            common = source if found else common
    return common
