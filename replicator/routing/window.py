"""Which pulls to make next, and which answers can be used: pipelined, in order, without a gap.

Queue offsets are contiguous, so the offsets to come are known and many pulls can be under way at once.
Only the gap-free prefix of the answers is given out. An answer shorter than asked for leaves a hole,
which the next pull fills; the length of answers becomes the stride of the next ones. Pure: no I/O.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from replicator.client.pull import MAX_PULL, Pulled
from replicator.protocol.codes import Response

__all__ = ["Pull", "PullWindow"]

#: Pulls under way at the beginning; the source task lets it grow and shrink.
_FIRST_DEPTH: Final = 2
#: Offsets that an answer is expected to cover at first: what brokers give from memory by default.
_FIRST_STRIDE: Final = 32
#: Whole answers after which one pull asks for more than the stride, to see whether the broker gives it
#: (it gives 8 from disk, 32 from memory, more where its settings were raised).
_PROBE_EVERY: Final = 32
#: Strides that such a pull asks for: what it brings has to have its place in memory.
_PROBE: Final = 4


class Pull(msgspec.Struct, gc=False, eq=False):
    """One pull under way, from `offset`.

    `span` offsets are expected to be covered by the answer, `count` messages are asked for; `wait` is a
    long poll.
    """

    offset: int
    span: int
    count: int
    wait: bool = False
    reserved: int = 0
    answer: Pulled | None = None


class PullWindow:
    """The pulls of one queue.

    Args:
        offset: queue offset, next to read.
        filtered: the broker leaves messages out, so an answer may cover more offsets than it has messages.
    """

    __slots__ = ("_filtered", "_pulls", "_whole", "depth", "head", "max_offset", "stride")

    def __init__(self, offset: int, *, filtered: bool = False) -> None:
        self.head = offset
        self.max_offset = offset + 1  # not known: the first pull returns at once and says
        self.stride = _FIRST_STRIDE
        self.depth = _FIRST_DEPTH
        self._filtered = filtered
        self._whole = 0
        self._pulls: deque[Pull] = deque()

    @property
    def in_flight(self) -> int:
        return len(self._pulls)

    @property
    def has_hole(self) -> bool:
        """Whether answers are held back because what lies before them has not been pulled."""
        return bool(self._pulls) and self._pulls[0].offset > self.head

    def next_pull(self) -> Pull | None:
        """The next pull to make, or None when enough are under way. It counts as under way at once."""
        pulls = self._pulls
        if not pulls:
            wait = self.head >= self.max_offset
            pull = Pull(self.head, self.stride, MAX_PULL if wait else self._count(self.stride), wait)
            pulls.append(pull)
            return pull
        first = pulls[0]
        if first.offset > self.head:  # a hole left by a short answer
            hole = min(self.stride, first.offset - self.head)
            pull = Pull(self.head, hole, hole)
            pulls.appendleft(pull)
            return pull
        last = pulls[-1]
        offset = max(self.head, last.offset + last.span)
        if len(pulls) >= self.depth or offset >= self.max_offset or last.wait:
            return None
        pull = Pull(offset, self.stride, self._count(self.stride))
        pulls.append(pull)
        return pull

    def _count(self, span: int) -> int:
        if self._filtered:
            return MAX_PULL
        if self._whole >= _PROBE_EVERY:
            self._whole = 0
            return min(_PROBE * span, MAX_PULL)
        return span

    def answered(self, pull: Pull, answer: Pulled) -> list[Pull]:
        """Takes the answer to `pull`; gives the pulls that are done with now, in order.

        The answer of each has what is next in order; it is None where all of it was known already. An
        answer with PULL_OFFSET_MOVED is given out only as the last one and only for the head: the caller
        decides where to continue.
        """
        pull.answer = answer
        self.max_offset = answer.max_offset
        if answer.code == Response.PULL_NOT_FOUND and pull.offset == self.head:
            self.max_offset = self.head  # whatever else it says: the next pull waits
        self._adapt(pull, answer)
        done: list[Pull] = []
        pulls = self._pulls
        while pulls and pulls[0].offset <= self.head and (next_ := pulls[0].answer) is not None:
            first = pulls.popleft()
            done.append(first)
            if next_.code == Response.PULL_OFFSET_MOVED and first.offset == self.head:
                break
            if next_.code == Response.PULL_OFFSET_MOVED or next_.next_offset <= self.head:
                first.answer = None
                continue
            if first.offset < self.head:
                kept = [message for message in next_.messages if message.queue_offset >= self.head]
                first.answer = next_._replace(messages=kept)
            first.offset = self.head
            self.head = next_.next_offset
        return done

    def abandon(self) -> list[Pull]:
        """The pulls that are not done; none of them counts any more."""
        left = list(self._pulls)
        self._pulls.clear()
        return left

    def _adapt(self, pull: Pull, answer: Pulled) -> None:
        covered = answer.next_offset - pull.offset
        if covered <= 0 or pull.span < self.stride:
            return
        if covered > pull.span:
            self.stride = covered
        elif covered == pull.span:
            self._whole += 1
        elif answer.next_offset < answer.max_offset:  # the broker's limit, not the queue's end
            self.stride = covered
            self._whole = 0
