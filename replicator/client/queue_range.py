"""Reads a range of a queue, pull by pull."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from replicator.aio.clock import now
from replicator.client.brokers import max_offset, offset_near
from replicator.client.endpoint import Endpoint
from replicator.client.pull import Pulled, pull
from replicator.errors import NothingShown
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage

__all__ = ["read_range", "recent_range"]

#: Messages that a broker gives at most in one pull, unless its settings were raised.
_PULLED: Final = 32

#: Seconds for which a broker may give nothing of a queue that goes on, as busy ones do, and between two attempts.
_PATIENCE: Final = 10.0
_PAUSE: Final = 0.05


async def recent_range(broker: Endpoint, topic: str, queue_id: int, seconds: float) -> tuple[int, int]:
    """[start, end) of a queue: what was stored in so many seconds before its newest message, by the broker's clock.

    On 4.9 it may begin somewhat earlier (`offset_near`).

    Raises:
        BrokerRefused, Unreachable, RequestTimeout, ProtocolError: see there.
    """
    end = await max_offset(broker, topic, queue_id)
    if end == 0:
        return 0, 0
    last = await pull(broker, topic, queue_id, end - 1, count=1)
    if not last.messages:
        return last.next_offset, end
    since = max(0, last.messages[-1].store_timestamp - int(seconds * 1000))
    return await offset_near(broker, topic, queue_id, since), end


async def read_range(
    broker: Endpoint, topic: str, queue_id: int, start: int, stop: int | None = None, *, at_once: int = 1
) -> AsyncIterator[StoredMessage]:
    """The messages of a queue in [start, stop), or to its end; begins at the oldest if `start` has gone.

    Args:
        at_once: pulls under way at a time, of a range that has a `stop`: over a long distance each takes its time.

    Raises:
        NothingShown: the queue goes on, and the broker gives nothing of it.
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    offset, given_at = start, now()
    while stop is None or offset < stop:
        begun = offset
        for place, pulled in await _pull_ahead(broker, topic, queue_id, offset, stop, at_once):
            if place != offset:
                break  # the one before has given less, or more
            for message in pulled.messages:
                if stop is not None and message.queue_offset >= stop:
                    return
                yield message
            offset = max(offset, _after(pulled, offset))
        if offset > begun:
            given_at = now()
        elif offset >= pulled.max_offset:
            return
        elif now() - given_at < _PATIENCE:
            await asyncio.sleep(_PAUSE)
        else:
            raise NothingShown(broker.address, f"{topic}/{queue_id}", offset, pulled.max_offset)


async def _pull_ahead(
    broker: Endpoint, topic: str, queue_id: int, offset: int, stop: int | None, at_once: int
) -> list[tuple[int, Pulled]]:
    """What the broker gives from `offset` on, and from where it should go on, each with its offset."""
    if stop is None or at_once == 1:
        return [(offset, await pull(broker, topic, queue_id, offset))]
    places = range(offset, stop, _PULLED)[:at_once]
    answers = await asyncio.gather(*(pull(broker, topic, queue_id, place) for place in places))
    return list(zip(places, answers, strict=True))


def _after(pulled: Pulled, offset: int) -> int:
    if pulled.code == Response.PULL_OFFSET_MOVED and offset < pulled.min_offset:
        return pulled.min_offset
    return pulled.next_offset
