"""Whether a target topic has messages that no route has copied there from its source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replicator.client.brokers import max_offset
from replicator.client.endpoint import Endpoint
from replicator.client.queue_range import read_range
from replicator.routing import provenance

__all__ = ["has_foreign_messages"]

#: Messages that are looked at, at the end of each queue.
_LOOK_BACK: Final = 1024


async def has_foreign_messages(broker: Endpoint, topic: str, queues: Iterable[int], *, source: str) -> bool:
    """Whether one of the last messages of a queue is not a copy from cluster `source`.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout, ProtocolError: see there.
    """
    for queue in queues:
        end = await max_offset(broker, topic, queue)
        async for message in read_range(broker, topic, queue, max(0, end - _LOOK_BACK)):
            copy = provenance.of(message, topic)
            if copy is None or copy.cluster != source:
                return True
    return False
