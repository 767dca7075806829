"""Batches: as many packs from the front of a channel as one request to the target may hold."""

from __future__ import annotations

import math

from replicator.routing.channel import Channel, Transformed
from replicator.routing.packing import Pack, Packer

__all__ = ["Batch", "Batcher"]


class Batch:
    """Messages of one queue that go out in one request.

    `count` messages are in it, and `size` bytes in its body; `position` is the source offset that is settled once
    the batch is; `held` bytes of the memory budget are free then. `left_out` are the offsets of messages that
    transforms have left out and that are settled with it. `last_stored` is when the source stored the message
    before `position` (ms); 0: that is not known, or the batch ends within a chunk.
    """

    __slots__ = ("count", "held", "last_stored", "left_out", "packs", "position", "size")

    def __init__(self) -> None:
        self.packs: list[Pack] = []
        self.position = -1
        self.held = 0
        self.count = 0
        self.size = 0
        self.left_out: list[int] = []
        self.last_stored = 0

    def add(self, pack: Pack) -> None:
        """Appends `pack`."""
        self.packs.append(pack)
        self.count += len(pack)
        self.size += len(pack.data)

    @property
    def body(self) -> list[bytes]:
        """The request's body, in pieces."""
        return [pack.data for pack in self.packs]

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches with its messages, which are two or more; they hold no memory of their own."""
        packs = self.packs if len(self.packs) > 1 else self.packs[0].halves()
        middle = len(packs) // 2
        first, second = Batch(), Batch()
        for at, pack in enumerate(packs):
            (first if at < middle else second).add(pack)
        first.position, second.position = packs[middle].offsets[0], self.position
        return first, second


class Batcher:
    """Cuts batches off a channel.

    Args:
        packer: makes packs of what comes unpacked; a batch keeps to its limits.
        transformed: only chunks that transforms have seen are taken.
    """

    def __init__(self, channel: Channel, packer: Packer, *, transformed: bool = False) -> None:
        self._channel = channel
        self._packer = packer
        self._transformed = transformed

    def take(self, messages: float = math.inf, size: float = math.inf) -> Batch:
        """The next batch, of so many messages and bytes if they are fewer than the packer's limits.

        Messages that came together stay so, whatever their number.
        It is without messages when all that the channel held had been filtered out.
        A message that is over a limit, that a transform refuses, or that is in light message queues comes alone.
        """
        batch = Batch()
        chunks = self._channel.chunks
        while chunks:
            chunk = chunks[0]
            if self._transformed and chunk.transformed is None:
                break
            chunk.pack(self._packer)
            packs = chunk.packs
            while packs and self._put(batch, packs[0], messages, size):
                packs.popleft()
            batch.position = packs[0].offsets[0] if packs else chunk.next_offset
            batch.last_stored = 0 if packs else chunk.last_stored
            if chunk.transformed is not None:
                _take_left_out(batch, chunk.transformed)
            if packs:
                break
            batch.held += self._channel.pop()
        return batch

    def _put(self, batch: Batch, pack: Pack, messages: float, size: float) -> bool:
        """Adds `pack` if it fits into the batch; returns whether it does."""
        if batch.packs:
            packer, first, count = self._packer, batch.packs[0], batch.count + len(pack)
            if (
                batch.size + len(pack.data) + count * packer.more > min(packer.limit, size)
                or count > min(packer.max_messages, messages)
                or pack.sys_flag != first.sys_flag
                or pack.reconsume_times != first.reconsume_times
                or (packer.exact_born and pack.born_timestamp != first.born_timestamp)
                or pack.alone
                or first.alone
            ):
                return False
        batch.add(pack)
        return True


def _take_left_out(batch: Batch, transformed: Transformed) -> None:
    """Adds what transforms have left out before the batch's position."""
    left_out = transformed.left_out
    while left_out and left_out[0] < batch.position:
        batch.left_out.append(left_out.popleft())
