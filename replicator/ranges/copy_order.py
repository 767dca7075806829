"""The order of the copies in a target queue: which of them are out of it, as few as can be. Pure.

Copies that follow one another on both sides are a block, so memory grows with what is odd about a queue, not with
its length. Out of order are the blocks outside a heaviest increasing subsequence: those that have to be moved.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

__all__ = ["CopyOrder"]

#: Blocks that are remembered, some 10 MiB.
_MOST: Final = 32_768


@dataclass(slots=True)
class _Block:
    """`count` messages of source offsets `low` to `high`, whose copies are at target offsets `first` to `last`."""

    low: int
    high: int
    count: int
    first: int
    last: int


class CopyOrder:
    """Takes the copies of a source queue in the target's order.

    `full_from` is the target offset from which on nothing was remembered, since there was too much; None: all was.
    """

    def __init__(self) -> None:
        self.full_from: int | None = None
        self._blocks: list[_Block] = []
        self._by_source: list[_Block] = []
        self._disordered = False
        self._moved: list[_Block] = []

    def add(
        self, source: tuple[int, int], target: tuple[int, int], *, count: int = 1, before: int | None = None
    ) -> None:
        """Takes the next copies: the first and the last offset at the source, and at the target.

        Second copies of a message do not count.

        Args:
            count: how many they are; the source has no other message to copy between them.
            before: the offset of the source's message in front of them, if it is known.
        """
        if self.full_from is not None:
            return
        low, high = source
        block = self._blocks[-1] if self._blocks else None
        highest = self._by_source[-1].high if self._by_source else -1
        if low <= highest and self._has(low):
            return
        if block is not None and block.high in (before, low - 1):
            block.high, block.last, block.count = high, target[1], block.count + count
            return
        if len(self._blocks) == _MOST:
            self.full_from = target[0]
            return
        block = _Block(low, high, count, *target)
        self._blocks.append(block)
        if low > highest:
            self._by_source.append(block)
        else:
            self._disordered = True
            self._by_source.insert(bisect(self._by_source, low, key=attrgetter("low")), block)

    def decide(self) -> Sequence[tuple[int, int]]:
        """Decides which copies are out of order; returns first and last source offset of each such block."""
        self._moved = _lightest(self._blocks) if self._disordered else []
        self._blocks, self._by_source = [], []
        return [(block.low, block.high) for block in self._moved]

    def is_out(self, target: int) -> bool:
        """Whether the first copy of a message, at this target offset before `full_from`, is out of order."""
        at = bisect(self._moved, target, key=attrgetter("first")) - 1
        return at >= 0 and target <= self._moved[at].last

    def _has(self, source: int) -> bool:
        at = bisect(self._by_source, source, key=attrgetter("low")) - 1
        return at >= 0 and source <= self._by_source[at].high


def _lightest(blocks: Sequence[_Block]) -> list[_Block]:
    """The blocks to move, in the order of `blocks`, so that the fewest messages are moved.

    It goes through them from the end: of two neighbours that have changed places the later one is moved then.
    """
    # The heaviest chains by their weight; the heavier a chain, the lower is the source offset that it begins with.
    begins: list[int] = []
    weights: list[int] = []
    chains: list[int] = []
    after: list[int | None] = []
    for number in range(len(blocks) - 1, -1, -1):
        block = blocks[number]
        at = bisect_left(begins, -block.high)  # chains before it begin after this block
        weight = block.count + (weights[at - 1] if at else 0)
        after.append(chains[at - 1] if at else None)
        end = at
        while end < len(begins) and weights[end] <= weight:
            end += 1
        begins[at:end], weights[at:end], chains[at:end] = [-block.low], [weight], [number]
    kept: set[int] = set()
    link = chains[-1] if chains else None
    while link is not None:
        kept.add(link)
        link = after[len(blocks) - 1 - link]
    return [block for number, block in enumerate(blocks) if number not in kept]
