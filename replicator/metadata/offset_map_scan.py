"""What the offset map has forgotten, read from the copies in a target queue themselves."""

from __future__ import annotations

from collections.abc import Callable

from replicator.client.endpoint import Endpoint
from replicator.client.queue_range import read_range
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.offset_map import OffsetMap
from replicator.routing.provenance import Provenance

__all__ = ["offset_after_copy", "scan_offset_map"]

Mine = Callable[[Provenance], bool]


def _source(message: StoredMessage, topic: str, mine: Mine) -> int | None:
    found = provenance.of(message, topic)
    return found.offset if found is not None and mine(found) else None


async def scan_offset_map(
    broker: Endpoint, topic: str, queue_id: int, *, start: int, stop: int, mine: Mine
) -> OffsetMap:
    """The map of the copies in [start, stop) of a target queue.

    Args:
        mine: whether a copy with that provenance is one of this source queue.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    found = OffsetMap(most=stop - start)
    async for message in read_range(broker, topic, queue_id, start, stop):
        source = _source(message, topic, mine)
        if source is None:
            continue
        if found.last is not None and source <= found.last[0]:
            found.clear()  # the source queue was deleted and recreated
        found.add(source, message.queue_offset, 1)
    return found


async def offset_after_copy(
    broker: Endpoint, topic: str, queue_id: int, source: int, *, start: int, stop: int, mine: Mine
) -> int:
    """The target offset behind the last copy in [start, stop) of a message before `source`; `start` if there is
    none. Errors as `scan_offset_map`.
    """
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        found = None
        async for message in read_range(broker, topic, queue_id, middle, high):
            found = _source(message, topic, mine)
            if found is not None:
                at = message.queue_offset
                break
        if found is not None and found < source:
            low = at + 1
        else:
            high = middle
    return low
