"""Inspects messages that another producer stored in a target queue between two of our batches.

A foreign producer's messages are counted; a copy of our own that exists a second time (the late
request of a dead owner) is counted as a duplicate. A few readers serve the whole worker, outside the data path.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextlib import suppress
from math import inf
from typing import Final, Protocol

from replicator.aio.backoff import Backoff
from replicator.aio.clock import now
from replicator.client.endpoint import Endpoint
from replicator.client.pull import pull, pull_with_host
from replicator.client.topics import is_missing
from replicator.errors import ClientError, ProtocolError
from replicator.observe.logging import get_logger
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.routing.message_queue import MessageQueue
from replicator.routing.state import QueueState

__all__ = ["Audited", "ForeignWriteInspector"]

#: Queues of one broker that are read at the same time.
_AT_ONCE: Final = 8
#: Target offsets that one pull covers: what brokers give from memory by default.
_SPAN: Final = 32
#: Ranges of one queue that wait at most; the older half of them is given up then.
_MOST: Final = 1024
#: Seconds after which a queue that could not be read is tried again: the first time, and the most.
_PAUSE_FIRST: Final = 0.2
_PAUSE_MOST: Final = 5.0
#: Seconds between two log lines that say who writes to a topic.
_TOLD: Final = 3600.0
#: Attempts after which a queue that does not show what its broker has stored is considered truncated.
_UNSHOWN: Final = 12

log = get_logger(__name__)


class Audited(Protocol):
    """Those who copy to a target queue."""

    state: QueueState

    def target_place(self) -> tuple[Endpoint, str, int]:
        """The queue's master, topic and number; `Unreachable` while it has no master."""
        ...

    def count_foreign(self, message: StoredMessage) -> bool:
        """Counts a message that was not stored by the last batches; whether somebody else has written it."""
        ...


class _Waiting:
    """What is to be inspected in one queue: ranges [from, to) of its offsets, in order."""

    __slots__ = ("ranges",)

    def __init__(self) -> None:
        self.ranges: deque[tuple[int, int]] = deque()

    def add(self, start: int, stop: int) -> None:
        if self.ranges and self.ranges[-1][1] == start:
            start, _ = self.ranges.pop()
        self.ranges.append((start, stop))

    def take(self) -> list[tuple[int, int]]:
        """The first ones, as far as one pull covers them; in a recreated queue, later ones come before them."""
        taken: list[tuple[int, int]] = []
        first = self.ranges[0][0]
        end = first + _SPAN
        while self.ranges and first <= self.ranges[0][0] < end:
            start, stop = self.ranges.popleft()
            taken.append((start, min(stop, end)))
            if stop > end:
                self.ranges.appendleft((end, stop))
        return taken

    def give_back(self, taken: list[tuple[int, int]], done: int) -> None:
        """What of `taken` is at offset `done` or later is still to be inspected."""
        self.ranges.extendleft((max(start, done), stop) for start, stop in reversed(taken) if stop > done)


class ForeignWriteInspector:
    """Works off ranges of target offsets, those of one queue in the order they came.

    What can no longer be read is counted as foreign, and logged. Who writes foreign messages is logged once an hour
    for each topic: in a route of two ways they are as they should be.
    """

    def __init__(self) -> None:
        self._waiting: dict[Audited, _Waiting] = {}
        self._new: asyncio.Queue[Audited] = asyncio.Queue()
        self._brokers: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_AT_ONCE))
        self._idle = asyncio.Event()
        self._idle.set()
        #: When it was logged last who writes to a topic of a route.
        self._told: dict[tuple[str, str], float] = {}

    def add(self, queue: Audited, start: int, stop: int) -> None:
        """Has target offsets [start, stop) inspected soon."""
        waiting = self._waiting.get(queue)
        if waiting is None:
            waiting = self._waiting[queue] = _Waiting()
            self._new.put_nowait(queue)
            self._idle.clear()
        waiting.add(start, stop)
        if len(waiting.ranges) > _MOST:
            oldest = [waiting.ranges.popleft() for _ in range(_MOST // 2)]
            _give_up(queue, oldest, "they come faster than they can be read")

    async def run(self) -> None:
        """Runs until cancelled; a broker that cannot be read now is asked again."""
        async with asyncio.TaskGroup() as readers:
            while True:
                readers.create_task(self._read(await self._new.get()))

    async def drained(self) -> None:
        """Returns once all that was added has been inspected."""
        await self._idle.wait()

    async def _read(self, queue: Audited) -> None:
        """Inspects what waits in one queue; queues of one broker take turns."""
        waiting, backoff = self._waiting[queue], Backoff(_PAUSE_FIRST, _PAUSE_MOST, jitter=0.0)
        while waiting.ranges:
            before = queue.state.counters.foreign_offsets
            async with self._brokers[queue.state.target.broker]:
                inspected = await _inspect(queue, waiting, backoff.attempts)
            if queue.state.counters.foreign_offsets != before:
                await self._tell(queue)
            if inspected:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next())
        del self._waiting[queue]
        if not self._waiting:
            self._idle.set()

    async def _tell(self, queue: Audited) -> None:
        """Logs who has written the last foreign message of a queue, unless its topic was told of lately."""
        state, at = queue.state, now()
        topic, found = (state.route, state.topic), state.counters.foreign_offsets
        if found is None or at - self._told.get(topic, -inf) < _TOLD:
            return
        self._told[topic] = at
        host = ""
        with suppress(ClientError, ProtocolError):  # what is known is said all the same
            _, _, host = await pull_with_host(*queue.target_place(), found[1])
        log.warning(
            "foreign messages in a target queue",
            **_named(queue),
            target=str(state.target),
            first=found[0],
            last=found[1],
            born_host=host or "not known",
            hint="replicator where TOPIC BROKER QUEUE OFFSET --side target shows one",
        )


async def _inspect(queue: Audited, waiting: _Waiting, attempts: int) -> bool:
    """Inspects what one pull covers; False if it is to be tried again later, after so many `attempts`."""
    taken = waiting.take()
    start, stop = taken[0][0], taken[-1][1]
    try:
        pulled = await pull(*queue.target_place(), start, count=stop - start)
    except (ClientError, ProtocolError) as error:
        if isinstance(error, ProtocolError) or is_missing(error):
            _give_up(queue, taken, str(error))
            return True
        if not attempts:
            log.warning("foreign messages cannot be inspected now", **_named(queue), reason=str(error))
        waiting.give_back(taken, start)
        return False
    for message in pulled.messages:
        if any(low <= message.queue_offset < high for low, high in taken):
            queue.count_foreign(message)
    moved = pulled.code == Response.PULL_OFFSET_MOVED
    done = pulled.min_offset if moved else pulled.next_offset
    if done > start:  # or the queue does not show yet, or no longer has, what was there
        waiting.give_back(taken, done)
        if moved:
            _give_up(
                queue, [(low, min(high, done)) for low, high in taken if low < done], "retention has deleted them"
            )
        return True
    if attempts < _UNSHOWN:
        waiting.give_back(taken, start)
        return False
    _give_up(queue, taken, f"the target queue ends at offset {pulled.max_offset}")
    return True


def _give_up(queue: Audited, ranges: list[tuple[int, int]], reason: str) -> None:
    count = sum(stop - start for start, stop in ranges)
    queue.state.counters.foreign += count
    log.warning("foreign messages are counted without inspection", **_named(queue), count=count, reason=reason)


def _named(queue: Audited) -> dict[str, str]:
    """The queue as logs name it."""
    return {"connector": queue.state.route, "queue": str(MessageQueue(queue.state.topic, *queue.state.source))}
