"""Batches: as many messages from the front of a channel as one request to the target may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from replicator.protocol.batch import KEPT_SYS_FLAGS, pack_head, pack_length
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import MAX_PROPERTIES
from replicator.routing.channel import Channel, Chunk, Transformed
from replicator.routing.provenance import Stamp

__all__ = ["STORED_MORE", "Batch", "Batcher"]

#: Bytes by which a stored message may be larger than its entry in a batch: hosts (IPv6), offsets and
#: timestamps (96), and the properties that brokers append. 4.9.7 adds up stored sizes for its limit.
STORED_MORE: Final = 256


class Batch:
    """Messages of one queue that go out in one request.

    `parts` is the request's body, four pieces a message; `position` is the source offset that is settled
    once the batch is; `held` bytes of the memory budget are free then. `size` is that of the body in bytes,
    `stored` what a broker may count for it at most. `left_out` counts messages that transforms have left out
    and that are settled with it; `refused` says why a transform refuses the one message of it.
    """

    __slots__ = ("held", "left_out", "messages", "parts", "position", "refused", "size", "stored")

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self.parts: list[bytes] = []
        self.position = -1
        self.held = 0
        self.size = 0
        self.stored = 0
        self.left_out = 0
        self.refused = ""

    def part(self, start: int, stop: int) -> Batch:
        """The messages [start, stop) as a batch that holds no memory of its own."""
        part = Batch()
        part.messages = self.messages[start:stop]
        part.parts = self.parts[4 * start : 4 * stop]
        part.size = sum(map(len, part.parts))
        last = stop == len(self.messages)
        part.position = self.position if last else self.messages[stop].queue_offset
        return part

    @property
    def properties_too_long(self) -> bool:
        """Whether it is a single message whose properties cannot be sent."""
        return len(self.messages) == 1 and len(self.parts[3]) > MAX_PROPERTIES


class Batcher:
    """Cuts batches off a channel.

    Args:
        limit: bytes that one batch may be stored as; a larger message goes alone.
        exact_born: messages of different born timestamps do not share a batch.
        transformed: only chunks that transforms have seen are taken.
    """

    def __init__(
        self,
        channel: Channel,
        stamp: Stamp,
        *,
        topic: str,
        limit: int,
        max_messages: int,
        exact_born: bool,
        transformed: bool = False,
    ) -> None:
        self._channel = channel
        self._stamp = stamp
        self._limit = limit
        self._max_messages = max_messages
        self._exact_born = exact_born
        self._transformed = transformed
        self._more = STORED_MORE + len(topic)
        self._stamped: list[bytes] = []

    def take(self) -> Batch:
        """The next batch; without messages when all that the channel held had been filtered out.

        A message that is over the limit, or whose properties are over theirs, or that a transform refuses,
        comes alone.
        """
        batch = Batch()
        chunks = self._channel.chunks
        while chunks:
            chunk = chunks[0]
            if self._transformed and chunk.transformed is None:
                break
            messages = chunk.messages
            self._fill(batch, chunk)
            whole = chunk.taken == len(messages)
            batch.position = chunk.next_offset if whole else messages[chunk.taken].queue_offset
            if chunk.transformed is not None:
                _settle_left_out(batch, chunk.transformed)
            if not whole:
                break
            batch.held += self._channel.pop()
            if batch.properties_too_long or batch.refused:
                break
        return batch

    def _fill(self, batch: Batch, chunk: Chunk) -> None:
        """Adds what is left of `chunk` as far as it fits."""
        messages, start = chunk.messages, chunk.taken
        add, more, limit = batch.parts.extend, self._more, self._limit
        exact_born, kept = self._exact_born, KEPT_SYS_FLAGS
        taken = len(batch.messages)
        stop = min(len(messages), start + self._max_messages - taken)
        if start >= stop:
            return
        if chunk.transformed is not None and chunk.transformed.refused:
            stop = _before_refused(batch, messages, start, stop, chunk.transformed.refused)
            if start == stop:
                return
        if start == 0:
            self._stamped = (self._stamp.renew if chunk.copies else self._stamp.put)(messages)
        first = batch.messages[0] if taken else messages[start]
        kind, times, born = first.sys_flag & kept, first.reconsume_times, first.born_timestamp
        stored, size, at = batch.stored, batch.size, start
        for message, raw in zip(messages[start:stop], self._stamped[start:stop], strict=True):
            if message.sys_flag & kept != kind or message.reconsume_times != times:
                break
            if exact_born and message.born_timestamp != born:
                break
            body = message.body
            length = len(raw)
            entry = 18 + len(body) + length
            if (stored + entry + more > limit or length > MAX_PROPERTIES) and (taken or at > start):
                break
            size += entry
            stored += entry + more
            at += 1
            if length > MAX_PROPERTIES:
                add((pack_head(entry, 0, message.body_crc, message.flag), body, pack_length(MAX_PROPERTIES), raw))
                break
            add((pack_head(entry, 0, message.body_crc, message.flag), body, pack_length(length), raw))
        batch.stored, batch.size = stored, size
        batch.messages += messages[start:at]
        chunk.taken = at


def _before_refused(
    batch: Batch, messages: Sequence[StoredMessage], start: int, stop: int, refused: Mapping[int, str]
) -> int:
    """Where to stop so that a refused message comes alone; `start` when it has to wait for the next batch."""
    reason = refused.get(messages[start].queue_offset)
    if reason is None:
        return next((i for i in range(start, stop) if messages[i].queue_offset in refused), stop)
    if batch.messages:
        return start
    batch.refused = reason
    return start + 1


def _settle_left_out(batch: Batch, transformed: Transformed) -> None:
    """Counts what transforms have left out before the batch's position."""
    left_out = transformed.left_out
    while left_out and left_out[0] < batch.position:
        left_out.popleft()
        batch.left_out += 1
