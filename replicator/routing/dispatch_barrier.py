"""What brokers have stored and do not show yet.

A broker acknowledges a message once it is in its commit log; the queue shows it when it has been dispatched
there, usually milliseconds later, under load even seconds. In controller mode it may dispatch only what all its
replicas in sync have. Readers of a queue's tail must not take what is not shown yet for what was never stored.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import Final

from replicator.client.brokers import confirmed, dispatched
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused
from replicator.routing.faults import TargetBlocked

__all__ = ["DispatchBarrier"]

#: Seconds between checks, and until the wait is given up.
_PAUSE: Final = 0.1
_LIMIT: Final = 30.0
#: Seconds waited where a broker does not say: 4.9 in its first seconds, or without the permission.
_BLIND: Final = 1.0


class DispatchBarrier:
    """Waits for brokers; many who wait for one broker ask it once."""

    def __init__(self) -> None:
        self._count = itertools.count(1)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._looked: dict[str, int] = {}

    async def caught_up(self, broker: Endpoint) -> None:
        """Returns when the queues of `broker` show all that it has stored by now.

        Raises:
            TargetBlocked: they do not within half a minute.
            Unreachable, RequestTimeout: see there.
        """
        asked = next(self._count)
        async with self._locks[broker.address]:
            if self._looked.get(broker.address, 0) > asked:
                return  # a check has started and ended since we asked
            started = next(self._count)
            await _caught_up(broker)
            self._looked[broker.address] = started


async def _caught_up(broker: Endpoint) -> None:
    goal = 0
    for attempt in range(int(_LIMIT / _PAUSE)):
        limit = await confirmed(broker)  # asked first: it only grows, and what is behind is behind the limit
        try:
            stored, behind = await dispatched(broker)
        except BrokerRefused:
            await asyncio.sleep(_BLIND)
            return
        goal = goal if attempt else stored
        if (stored if limit is None else limit) - behind >= goal:
            return
        await asyncio.sleep(_PAUSE)
    if limit is not None and limit < goal:
        raise TargetBlocked(f"{broker.address} has stored messages that not all of its replicas in sync have yet")
    raise TargetBlocked(f"{broker.address} has stored {behind} bytes of messages that its queues do not show yet")
