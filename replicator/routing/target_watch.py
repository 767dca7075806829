"""Watches the target brokers of queues that have nothing to send, so that a loss is noticed while nothing flows.

A broker cannot lose what it has acknowledged without its connections breaking, so a new connection makes every
queue on it check the target. Besides, the ends of idle queues are compared with what was acknowledged, in turn;
what somebody else has written behind it is inspected then, and not only with the next message.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset
from replicator.client.cluster import Cluster
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.errors import ClientError, ProtocolError, ReplicatorError, RequestTimeout
from replicator.routing.state import QueueState

__all__ = ["TargetWatch", "Watched"]

#: Seconds between two checks.
_INTERVAL: Final = 2.0
#: Queues of one broker whose ends are asked for at each check: 100 requests a second take about 1 % of a core.
_ENDS: Final = 200
#: Of these, at the same time.
_AT_ONCE: Final = 8


class Watched(Protocol):
    """A queue that is being copied."""

    state: QueueState
    topic: str

    @property
    def target_connection(self) -> Connection | None:
        """Over which the target was checked."""
        ...

    def recheck(self, reason: str) -> None:
        """Has the target checked before anything more is sent."""
        ...

    def passed(self, end: int) -> None:
        """The target queue ends at `end`, behind what was acknowledged."""
        ...


class TargetWatch:
    """Watches queues from `add` to `discard`."""

    def __init__(self) -> None:
        self._queues: defaultdict[str, dict[Watched, None]] = defaultdict(dict)

    def add(self, queue: Watched) -> None:
        """`queue` is copied from now on."""
        self._queues[queue.state.target.broker][queue] = None

    def discard(self, queue: Watched) -> None:
        """`queue` is not copied any more."""
        self._queues[queue.state.target.broker].pop(queue, None)

    async def run(self, target: Cluster) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await asyncio.gather(*(self.check(target, broker) for broker in list(self._queues)))

    async def check(self, target: Cluster, broker: str) -> None:
        """Checks the connection to `broker`, and the ends of some of its queues, once."""
        queues = self._queues[broker]
        if not queues:
            return
        try:
            writer = target.writer(broker)
            connection = await writer.connection()
        except ReplicatorError as error:
            for queue in list(queues):
                queue.recheck(str(error))
            return
        for queue in list(queues):
            if queue.target_connection is not connection:
                queue.recheck(f"the connection to {writer.address} is a new one")
        turn = list(islice(queues, _ENDS))
        for queue in turn:  # to the end of the line
            if queue in queues:
                queues[queue] = queues.pop(queue)
        await self._compare_ends(writer, connection, turn)

    async def _compare_ends(self, writer: Endpoint, connection: Connection, queues: Sequence[Watched]) -> None:
        unanswered = False

        async def one(queue: Watched) -> None:
            nonlocal unanswered
            state = queue.state
            acknowledged = state.progress.target_end
            if acknowledged is None or state.progress.in_flight or unanswered:
                return
            try:
                end = await max_offset(writer, queue.topic, state.target.queue_id)
            except RequestTimeout:
                # It may lead to a machine that is gone: a new connection shows that. Not where the question
                # waits behind what is being sent over a slow line, which would begin again.
                if not (connection.closed or connection.is_moving):
                    writer.drop()
                unanswered = True  # the others would wait as long, and brokers that answer with them
                return
            except (ClientError, ProtocolError) as error:
                queue.recheck(str(error))
                return
            if end < acknowledged:
                queue.recheck(f"the target queue ends at offset {end}, and {acknowledged} was acknowledged")
            elif end > acknowledged and acknowledged == state.progress.target_end and not state.progress.in_flight:
                queue.passed(end)  # else it was a message of ours

        await bounded(one, queues, at_once=_AT_ONCE)
