"""The transforms of one queue: messages at the front of its channel are transformed before they are sent."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from replicator.protocol.message import StoredMessage
from replicator.routing.channel import Chunk, Transformed
from replicator.routing.faults import TransformRefused
from replicator.routing.options import Transform
from replicator.routing.queue_map import Queue

__all__ = ["Transforming"]

#: Seconds after which others get their turn: heartbeats and all other queues share the loop with transforms.
_TURN: Final = 0.01


class Transforming:
    """Hands the messages of one source queue to `transform`.

    Args:
        ahead: messages that are transformed before a batch is made of them, at least; what a pull brought is
            transformed as a whole.
    """

    def __init__(self, transform: Transform, topic: str, source: Queue, *, ahead: int) -> None:
        self._transform = transform
        self._topic = topic
        self._source = source
        self._ahead = ahead

    async def see(self, chunks: Iterable[Chunk]) -> None:
        """Transforms chunks from the first on, the first in any case."""
        ready = 0
        for chunk in list(chunks):
            if chunk.transformed is None:
                await self._see(chunk)
            ready += chunk.left
            if ready >= self._ahead:
                return

    async def _see(self, chunk: Chunk) -> None:
        kept: list[StoredMessage] = []
        left_out: deque[int] = deque()
        refused: dict[int, str] = {}
        turn_ends = time.monotonic() + _TURN
        for message in chunk.messages:
            try:
                changed = self._transform(self._topic, self._source, message)
            except TransformRefused as error:
                refused[message.queue_offset] = str(error)
                changed = message  # as it was: that is what a dead letter shows
            if changed is None:
                left_out.append(message.queue_offset)
            else:
                kept.append(changed)
            if time.monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = time.monotonic() + _TURN
        chunk.messages = kept
        chunk.transformed = Transformed(left_out, refused)
