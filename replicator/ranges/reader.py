"""Reads a complete range of a queue with pulls ahead, for the data source and `verify`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal

from replicator.aio.clock import now
from replicator.client.cluster import Cluster
from replicator.errors import ClientError, ReplicatorError
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
        self._options = options
        self._at_slave = at_slave

    async def chunks(self) -> AsyncIterator[Sequence[StoredMessage]]:
        """The messages, some at a time.

        Raises:
            SourceGap, SourceReset: the broker does not have all of them, and `on_loss` is `fail`.
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
                if self._on_loss == "fail":
                    raise
                self.gaps += self._end - self.position
                return
            except (SourceLost, ClientError) as lost:
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
        task = SourceTask(
            await reader.connection(),
            channel,
            offset=self.position,
            state=QueueState(self._topic, self._queue, self._queue),
            options=self._options,
            budget=budget,
            from_master=self._cluster.is_master(self._queue.broker, reader.address),
            sure_at=now(),
            end=self._end,
            slave=self._cluster.slave(self._queue.broker) if self._at_slave else None,
        )
        task.start()
        try:
            while True:
                await channel.ready()
                chunk = channel.chunks[0]
                channel.release(channel.pop())
                task.pump()
                yield chunk.messages
                self.position = chunk.next_offset
        finally:
            task.stop()
            channel.drop()
