"""Reads a range of a queue, pull by pull."""

from __future__ import annotations

from collections.abc import AsyncIterator

from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage

__all__ = ["read_range"]


async def read_range(
    broker: Endpoint, topic: str, queue_id: int, start: int, stop: int | None = None
) -> AsyncIterator[StoredMessage]:
    """The messages of a queue in [start, stop), or to its end; begins at the oldest if `start` has gone.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    offset = start
    while stop is None or offset < stop:
        pulled = await pull(broker, topic, queue_id, offset)
        for message in pulled.messages:
            if stop is not None and message.queue_offset >= stop:
                return
            yield message
        if pulled.code == Response.PULL_OFFSET_MOVED and offset < pulled.min_offset:
            offset = pulled.min_offset
        elif pulled.next_offset > offset:
            offset = pulled.next_offset
        else:
            return
