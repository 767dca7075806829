"""Where target queues begin and end, asked for as rarely as will do."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from replicator.client.brokers import max_offset, min_offset
from replicator.client.cluster import Cluster
from replicator.metadata.offsets import CopiedQueue
from replicator.metadata.remembered import Remembered
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.faults import TargetBlocked
from replicator.routing.queue_map import Queue

__all__ = ["TargetEnds"]

#: Seconds for which an end is believed; both only ever grow, unless the topic is deleted.
_BELIEVED: Final = 60.0
#: Seconds in which a broker must show all that it has stored, or it is not asked for the end of a queue now.
_SHOWN: Final = 3.0

_Key = tuple[str, Queue]


class TargetEnds:
    """Asks the brokers of `target`. Errors of all methods: BrokerRefused, Unreachable, RequestTimeout."""

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._barrier = DispatchBarrier()
        self._oldest = Remembered[_Key, tuple[float, int]]()
        self._newest: dict[_Key, tuple[float, int]] = {}
        #: Brokers that do not show all that they have stored, each with when that was seen.
        self._behind: dict[str, float] = {}

    async def oldest(self, queue: CopiedQueue) -> int:
        """The first offset that there is."""
        at, floor = self._oldest.get(_key(queue)) or (float("-inf"), 0)
        # It only ever grows, unless the topic was recreated; then nothing is copied there yet.
        if time.monotonic() - at > _BELIEVED or (floor and queue.offsets.first is None):
            broker = self._target.master(queue.target.broker)
            floor = await min_offset(broker, queue.target_topic, queue.target.queue_id)
            self._oldest[_key(queue)] = (time.monotonic(), floor)
        return floor

    async def newest(self, queue: CopiedQueue) -> int:
        """The offset of the next message, as the broker shows it now."""
        broker = self._target.master(queue.target.broker)
        return await max_offset(broker, queue.target_topic, queue.target.queue_id)

    async def if_before(self, queue: CopiedQueue, offset: int) -> int | None:
        """The end of the queue, if it lies before `offset`, of which the broker has been told earlier."""
        at, end = self._newest.get(_key(queue)) or (float("-inf"), 0)
        if offset <= end and time.monotonic() - at <= _BELIEVED:
            return None
        end = await self.newest(queue)
        if offset > end:
            if not await self._shows_all(queue.target.broker):
                return None
            end = await self.newest(queue)
        self._newest[_key(queue)] = (time.monotonic(), end)
        return end if end < offset else None

    async def _shows_all(self, name: str) -> bool:
        """Whether what a broker says of its queues is all: else an end may move on without anything being sent."""
        if time.monotonic() - self._behind.get(name, float("-inf")) <= _BELIEVED:
            return False
        try:
            async with asyncio.timeout(_SHOWN):
                await self._barrier.caught_up(self._target.master(name))
        except (TimeoutError, TargetBlocked):
            self._behind[name] = time.monotonic()
            return False
        self._behind.pop(name, None)
        return True

    def forget_unused(self) -> None:
        """A look at all groups has ended: what it did not ask for is of queues that are gone, or too old."""
        self._oldest.forget_unused()
        last = time.monotonic() - _BELIEVED
        self._newest = {key: known for key, known in self._newest.items() if known[0] >= last}


def _key(queue: CopiedQueue) -> _Key:
    return queue.target_topic, queue.target
