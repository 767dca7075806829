"""Reads a complete range of a queue with pulls ahead, for `verify`, `export`, the data source and others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal

from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.protocol.message import StoredMessage
from replicator.ranges.retry import PATIENCE
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel
from replicator.routing.faults import SourceEnded, SourceGap, SourceLost, SourceReset
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from replicator.routing.source_task import SourceTask
from replicator.routing.state import QueueState

__all__ = ["PLAIN", "RangeReader"]

#: Memory of one reader in bytes.
_MEMORY: Final = 8 * 1024 * 1024
#: Seconds between two attempts to reach a broker that does not answer.
_PAUSE: Final = 0.5

#: All messages: no loop check, no filter.
PLAIN: Final = RouteOptions(identity=Identity("", ""))


class RangeReader:
    """Reads [start, end) of a queue in order.

    Args:
        on_loss: what to do if the broker no longer has a message of the range.
        on_reset: what to do if the queue now ends before the range does; None: as `on_loss`.
        options: with those of a route, messages that the route would leave out are left out.
        at_slave: a slave may be read if the master suggests it.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        queue: Queue,
        start: int,
        end: int,
        *,
        on_loss: Literal["fail", "skip"] = "fail",
        on_reset: Literal["fail", "skip"] | None = None,
        options: RouteOptions = PLAIN,
        at_slave: bool = True,
    ) -> None:
        #: Next queue offset to read.
        self.position = start
        #: Messages of the range that the broker no longer had.
        self.gaps = 0
        self._cluster = cluster
        self._topic = topic
        self._queue = queue
        self._end = end
        self._on_loss = on_loss
        self._on_reset = on_reset or on_loss
        self._options = options
        self._at_slave = at_slave

    async def chunks(self) -> AsyncIterator[Sequence[StoredMessage]]:
        """The messages, some at a time.

        Raises:
            SourceGap: the broker no longer has all of them, and `on_loss` is `fail`.
            SourceReset: the queue ends before the range does, and `on_reset` is `fail`.
            ReplicatorError: the broker could not be read for a minute.
        """
        failing_since = 0.0
        reached = None
        while self.position < self._end:
            try:
                async for messages in self._some():
                    yield messages
            except SourceEnded:
                return
            except SourceGap as gap:
                if self._on_loss == "fail":
                    raise
                self.position = min(gap.end, self._end)
                self.gaps += self.position - gap.start
            except SourceReset:
                if self._on_reset == "fail":
                    raise
                self.gaps += self._end - self.position
                return
            except (SourceLost, ClientError, ProtocolError) as lost:
                if self.position != reached:
                    reached, failing_since = self.position, time.monotonic()
                elif time.monotonic() - failing_since >= PATIENCE:
                    queue = MessageQueue(self._topic, *self._queue)
                    raise ReplicatorError(f"{queue} cannot be read for {PATIENCE:g} s: {lost}") from None
                await asyncio.sleep(_PAUSE)
                with contextlib.suppress(ReplicatorError):  # its name server may be down too
                    await self._cluster.refresh()

    async def _some(self) -> AsyncIterator[Sequence[StoredMessage]]:
        """The messages until the channel fails."""
        reader = self._cluster.reader(self._queue.broker)
        budget = MemoryBudget(_MEMORY)
        channel = Channel(budget)
        from_master = self._cluster.is_master(self._queue.broker, reader.address)
        task = SourceTask(
            await reader.connection(),
            channel,
            offset=self.position,
            state=QueueState(self._topic, self._queue, self._queue),
            options=self._options,
            budget=budget,
            from_master=from_master,
            sure_at=now(),
            end=self._end,
            slave=self._cluster.slave(self._queue.broker) if self._at_slave else None,
        )
        task.start()
        try:
            while True:
                try:
                    async with asyncio.timeout(PATIENCE):
                        await channel.ready()
                except TimeoutError:
                    if not channel.chunks:  # else the process was suspended, and has both by now
                        raise await self._silence(reader, from_master=from_master) from None
                chunk = channel.chunks[0]
                channel.release(channel.pop())
                task.pump()
                yield chunk.messages
                self.position = chunk.next_offset
        finally:
            task.stop()
            channel.drop()

    async def _silence(self, reader: Endpoint, *, from_master: bool) -> SourceReset | SourceLost:
        """Why nothing comes any more: a broker that has been read to its end holds each pull, and says no more.

        It is asked again: after a suspension the last answer is an old one.

        Raises:
            ClientError, ProtocolError: the broker does not answer, or not as one.
        """
        pulled = await pull(reader, self._topic, self._queue.queue_id, self.position, count=1)
        if pulled.max_offset >= self._end:
            return SourceLost(f"{reader.address} gives nothing at offset {self.position}")
        if from_master:
            return SourceReset(self._end, pulled.min_offset, pulled.max_offset)
        return SourceLost(f"slave {reader.address} ends at offset {pulled.max_offset}, before its master did")
