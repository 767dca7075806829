"""Writes rows to one queue: one batch in flight, and its outcome known; rows that are copies only once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from replicator.client.brokers import max_offset
from replicator.client.cluster import Cluster
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.queue_range import read_range
from replicator.client.send import Stored, new_fields, send_batch
from replicator.errors import ReplicatorError
from replicator.ranges.retry import insist
from replicator.routing import provenance
from replicator.routing.checked_send import checked, outcome
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.faults import MessageRejected
from replicator.routing.message_queue import MessageQueue
from replicator.routing.packing import STORED_MORE
from replicator.routing.provenance import Provenance
from replicator.routing.recovery import read_on, read_tail

__all__ = ["Message", "QueueWriter"]

#: Maximum messages of one batch.
_MOST: Final = 512
#: Seconds for which the last request of a dead attempt may still wait inside a broker.
_SETTLE: Final = 1.0
#: Seconds after which the queue is checked before the next batch of copies: a process that was paused for so long
#: that Spark has started another attempt must not continue.
_REST: Final = 1.0


class Message(NamedTuple):
    """An entry of a batch, and the provenance of the row."""

    entry: bytes
    source: Provenance | None


class QueueWriter:
    """Sends to one queue of `cluster`.

    Messages with provenance are not sent if the queue has them already. From the first of them on the expected
    offset of each batch is known; messages that were stored in between are checked.

    Args:
        limit: maximum bytes of a batch.
        settle: see `Sender`.
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: MessageQueue,
        *,
        limit: int,
        barrier: DispatchBarrier,
        settle: bool,
    ) -> None:
        self.sent = 0
        self._cluster = cluster
        self._queue = queue
        self._limit = limit
        self._barrier = barrier
        self._settle = settle
        #: By source queue, the offset of its last copy here, and the latest store time of the copied messages.
        self._reached: dict[tuple[str, str, int], tuple[int, int]] = {}
        #: The last row of each source queue.
        self._came: dict[tuple[str, str, int], Provenance] = {}
        #: The offset after all messages that were read or sent here, and when that was.
        self._end: int | None = None
        self._looked = 0.0
        #: The offset after the last acknowledged batch, and the connection over which the queue was checked.
        self._acknowledged = 0
        self._checked: Connection | None = None

    async def send(self, messages: Sequence[Message]) -> None:
        """Returns when all are acknowledged.

        Raises:
            ReplicatorError: one was refused, its outcome is not known, or another writer writes the same ones.
        """
        batch: list[Message] = []
        size = 0
        for message in messages:
            if await self._is_there(message):
                continue
            stored = len(message.entry) + STORED_MORE + len(self._queue.topic)
            if batch and (len(batch) >= _MOST or size + stored > self._limit):
                await self._deliver(batch)
                batch, size = [], 0
            batch.append(message)
            size += stored
        if batch:
            await self._deliver(batch)

    async def _is_there(self, message: Message) -> bool:
        """Whether the queue has the copy already.

        A recreated source topic has the same offsets again, with later store times.
        """
        source = message.source
        if source is None:
            return False
        key = source[1:4]
        last = self._came.get(key)
        if last is not None and source.offset < last.offset and source.stored <= last.stored:
            raise ReplicatorError(
                f"{self._queue}: the row of {source.broker}/{source.queue_id}/{source.offset} comes after that of"
                f" offset {last.offset}, and would be mistaken for one that exists",
                hint="have the rows of each source queue in one partition, sorted by queueOffset",
            )
        self._came[key] = source
        if key not in self._reached:
            self._reached[key] = await insist(self._cluster, str(self._queue), lambda: self._reach(source))
        offset, stored = self._reached[key]
        if source.offset <= offset and source.stored <= stored:
            return True
        self._reached[key] = source.offset, source.stored
        return False

    async def _reach(self, source: Provenance) -> tuple[int, int]:
        """The offset of the last copy, and the latest store time of copied messages; -1 if there is no copy."""

        def mine(found: Provenance) -> bool:
            return found[1:4] == source[1:4]

        place = self._place()
        tail = await read_tail(*place, mine=mine, known=None)
        if self._settle:
            await asyncio.sleep(_SETTLE)
            await self._barrier.caught_up(place[0])
            await read_on(*place, tail, mine=mine)
            self._settle = False  # so has all that was in the broker when the queue's first row came
        if self._end is None:
            self._end, self._looked = tail.end, time.monotonic()
        if tail.last is None:
            return -1, -1
        return tail.last.source, max(copy.stored for copy in tail.copies)

    def _place(self) -> tuple[Endpoint, str, int]:
        return self._cluster.master(self._queue.broker), self._queue.topic, self._queue.queue_id

    async def _deliver(self, batch: Sequence[Message]) -> None:
        fields = new_fields(self._queue.topic, self._queue.queue_id)
        body = b"".join([message.entry for message in batch])
        try:
            stored = await insist(self._cluster, str(self._queue), lambda: self._once(fields, body))
        except MessageRejected as rejected:
            raise ReplicatorError(
                f"{self._queue} refuses a batch of {len(batch)} with {len(body)} bytes: {rejected.message}",
                hint="raise the broker's maxMessageSize, or leave such rows out",
            ) from None
        if self._end is not None:
            if stored.offset < self._end:
                raise _went_back(self._queue, self._end, stored.offset)
            if stored.offset > self._end:
                await insist(self._cluster, str(self._queue), lambda: self._check_foreign(stored.offset))
            self._end, self._looked = stored.offset + len(batch), time.monotonic()
        self._acknowledged = stored.offset + len(batch)
        self.sent += len(batch)

    async def _once(self, fields: dict[str, str], body: bytes) -> Stored:
        """Sends once; an error with an unknown outcome ends the attempt, since the next one reads the tail."""
        writer = self._cluster.writer(self._queue.broker)
        connection = await writer.connection()
        if connection is not self._checked:
            await self._check(connection)
        elif self._end is not None and time.monotonic() - self._looked > _REST:
            await self._check_foreign()
        return await outcome(send_batch(await checked(writer, self._checked), fields, [body]))

    async def _check(self, connection: Connection) -> None:
        """Checks over a new connection that the queue still has all that was written.

        Raises:
            ReplicatorError: the queue has lost acknowledged messages.
        """
        if self._acknowledged:
            place = self._place()
            await self._barrier.caught_up(place[0])
            end = await max_offset(*place)
            if end < self._acknowledged:
                raise _went_back(self._queue, self._acknowledged, end)
            if self._end is not None:
                await self._check_foreign()
        self._checked = connection

    async def _check_foreign(self, stop: int | None = None) -> None:
        """Checks messages that others have stored from `_end` on: up to `stop`, or to the queue's visible end.

        Raises:
            ReplicatorError: one is a copy from a source queue whose copies are written here.
        """
        assert self._end is not None  # noqa: S101 - both callers check it
        broker = self._cluster.master(self._queue.broker)
        if stop is not None:
            await self._barrier.caught_up(broker)
        async for message in read_range(broker, self._queue.topic, self._queue.queue_id, self._end, stop):
            found = provenance.of(message, self._queue.topic)
            if found is not None and found[1:4] in self._reached:
                raise ReplicatorError(
                    f"{self._queue} has a copy of {found.broker}/{found.queue_id}/{found.offset} at offset"
                    f" {message.queue_offset} that another producer wrote meanwhile",
                    hint="have one writer of them; another attempt continues after what exists",
                )
            self._end = message.queue_offset + 1
        self._looked = time.monotonic()


def _went_back(queue: MessageQueue, end: int, found: int) -> ReplicatorError:
    return ReplicatorError(
        f"{queue} went back from offset {end} to {found}",
        hint="it was truncated or recreated: another attempt reads what it has and sends the rest",
    )
