"""The in-memory channel between the source task and the sink task of one queue.

It holds chunks: what one pull brought, with the source offset that follows. It is bounded by the
memory budget that the source task reserves from before it pulls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from replicator.protocol.message import StoredMessage
from replicator.routing.budget import MemoryBudget
from replicator.routing.faults import Drained
from replicator.routing.packing import Pack, Packer

__all__ = ["Channel", "Chunk", "Source", "Transformed"]


class Transformed:
    """What transforms made of a chunk, besides its messages: offsets left out, and why some are refused."""

    __slots__ = ("left_out", "refused")

    def __init__(self, left_out: deque[int], refused: dict[int, str]) -> None:
        self.left_out = left_out
        self.refused = refused


class Chunk:
    """Messages of one queue in order; `next_offset` is the source offset after all of them.

    `messages` may be fewer than the offsets that they cover: what was filtered out is not in it. `copies`
    says that some of them are copies themselves. Once they are packed they are in `packs` instead.
    `transformed` is None until the route's transforms have seen the messages; always where there are none.
    `last_stored` is when the source stored the message before `next_offset` (ms); 0: nobody has seen that one.
    """

    __slots__ = ("copies", "last_stored", "messages", "next_offset", "packs", "size", "transformed")

    def __init__(
        self,
        messages: Sequence[StoredMessage],
        next_offset: int,
        size: int,
        *,
        copies: bool,
        last_stored: int = 0,
    ) -> None:
        self.messages = messages
        self.copies = copies
        self.next_offset = next_offset
        self.size = size
        self.last_stored = last_stored
        self.packs: deque[Pack] = deque()
        self.transformed: Transformed | None = None

    @property
    def left(self) -> int:
        """Messages that are in no batch yet."""
        return len(self.messages) + sum(map(len, self.packs))

    def pack(self, packer: Packer) -> None:
        """Packs the messages, unless they are."""
        if self.messages:
            refused = {} if self.transformed is None else self.transformed.refused
            self.packs.extend(packer.pack(self.messages, copies=self.copies, refused=refused))
            self.messages = ()


class Channel:
    """One writer, one reader. A failure of the writer reaches the reader after all chunks.

    Args:
        packer: packs what comes at once; without one it is for the reader to do.
    """

    __slots__ = ("_budget", "_failure", "_packer", "_reader", "chunks", "size")

    def __init__(self, budget: MemoryBudget, packer: Packer | None = None) -> None:
        self.chunks: deque[Chunk] = deque()
        self.size = 0
        self._budget = budget
        self._packer = packer
        self._failure: Exception | None = None
        self._reader: asyncio.Future[None] | None = None

    def put(self, chunk: Chunk) -> None:
        """Appends `chunk`, whose bytes are charged to the budget already."""
        if self._packer is not None:
            chunk.pack(self._packer)
        self.chunks.append(chunk)
        self.size += chunk.size
        self._wake()

    def fail(self, error: Exception) -> None:
        """Ends the channel: nothing comes any more, because of `error`."""
        if self._failure is None:
            self._failure = error
            self._wake()

    def pop(self) -> int:
        """Removes the first chunk; its bytes stay charged until they are released.

        Returns:
            those bytes.
        """
        size = self.chunks.popleft().size
        self.size -= size
        return size

    def release(self, size: int) -> None:
        """Gives the memory of popped chunks back."""
        self._budget.release(size)

    async def ready(self) -> None:
        """Waits until there is a chunk.

        Raises:
            the failure of the writer, once all chunks are gone.
        """
        while not self.chunks:
            if self._failure is not None:
                raise self._failure
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None

    @property
    def is_drained(self) -> bool:
        """Whether nothing comes any more since the queue is to end here."""
        return isinstance(self._failure, Drained)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def drop(self) -> None:
        """Forgets all chunks and gives their memory back."""
        while self.chunks:
            self.release(self.pop())


class Source(Protocol):
    """What puts messages into a channel, and ends by failing it; `SourceTask` says what each part is."""

    @property
    def address(self) -> str: ...

    def start(self) -> None: ...

    def pump(self) -> None: ...

    def stop(self) -> None: ...
