"""The lanes of a release: whatever one of them waits for, the others send when their messages are due."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Final

from replicator.routing.faults import OutcomeUnknown
from replicator.routing.parked import Parked
from replicator.routing.queue_map import Queue

__all__ = ["Lane", "Lanes", "Refused"]

#: Seconds after which the clock is read again at the latest: it may have been set, or the machine was suspended.
_POLL_INTERVAL: Final = 1.0

Lane = deque[Parked]


class Refused(OutcomeUnknown):
    """The target does not take a message, for a reason that may pass or not; the next plan says if it has it."""


class Lanes:
    """All messages for one queue are a lane: they are sent one after the other, by due time.

    A failure ends its lane and no other; `Refused` leaves out its message alone. Once `may_go_on` has said no,
    nothing more is sent.

    Args:
        messages: by due time, as `plan_release` orders them.
        send: sends one that is due. It is called for all lanes at once: how many may send at a time is up to it.
    """

    def __init__(
        self,
        messages: Iterable[Parked],
        send: Callable[[Parked], Awaitable[None]],
        may_go_on: Callable[[], bool],
    ) -> None:
        self._send = send
        self._may_go_on = may_go_on
        self._stopped = False
        self._failures: list[Exception] = []
        self._offering = self._sending = 0
        self._numbers = count()
        #: Those that wait, as a heap: when the first message is due (ms), a number that no other has, the lane.
        self._idle: list[tuple[int, int, Lane]] = []
        self._changed = asyncio.Event()
        lanes: dict[tuple[str, Queue], Lane] = {}
        for parked in messages:
            lanes.setdefault((parked.topic, parked.queue), Lane()).append(parked)
        for lane in lanes.values():
            self._rest(lane)

    async def offer(self, offer: Callable[[Parked, Lane], Awaitable[None]]) -> None:
        """Offers each message once; `offer` appends those to the lane it is given that are to be sent when due.

        Such a message is sent here if it becomes due before all others were offered.

        Raises:
            Exception: of the failures the first that ended a lane, else the first; when all others were offered.
        """
        lanes, self._idle = [lane for *_, lane in sorted(self._idle)], []
        self._offering = len(lanes)
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(self._offer(lane, offer))
            await self._send_due(group, lambda: self._offering > 0)
        self._raise()

    async def finish(self) -> None:
        """Sends all when they are due. After a failure it ends as soon as no message is due; errors as `offer`."""

        def goes_on() -> bool:
            return self._is_allowed() and bool(self._sending or (self._idle and not self._failures))

        async with asyncio.TaskGroup() as group:
            await self._send_due(group, goes_on)
        self._raise()

    async def _send_due(self, group: asyncio.TaskGroup, goes_on: Callable[[], bool]) -> None:
        """Has each lane send whose first message is due, while `goes_on`."""
        while True:
            self._changed.clear()
            while self._idle and _seconds_to(self._idle[0][0]) <= 0:
                *_, lane = heapq.heappop(self._idle)
                self._sending += 1
                group.create_task(self._send_lane(lane, goes_on))
            if self._stopped or not goes_on():
                return
            wait = _seconds_to(self._idle[0][0]) if self._idle else _POLL_INTERVAL
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait, _POLL_INTERVAL)):
                    await self._changed.wait()

    async def _offer(self, lane: Lane, offer: Callable[[Parked, Lane], Awaitable[None]]) -> None:
        late = Lane()
        for parked in lane:
            if not self._is_allowed() or not await self._is_well(offer(parked, late)):
                break
        else:
            self._rest(late)
        self._offering -= 1
        self._changed.set()

    async def _send_lane(self, lane: Lane, goes_on: Callable[[], bool]) -> None:
        while lane and _seconds_to(lane[0].due) <= 0 and self._is_allowed() and goes_on():
            if not await self._is_well(self._send(lane[0])):
                break
            lane.popleft()
        else:
            self._rest(lane)
        self._sending -= 1
        self._changed.set()

    async def _is_well(self, sending: Awaitable[None]) -> bool:
        """Whether its lane goes on; a bug, too, must not leave what is sent beside it to itself."""
        try:
            await sending
        except Exception as error:  # noqa: BLE001 - it is raised when the others are at their ends
            self._failures.append(error)
            return isinstance(error, Refused)
        return True

    def _is_allowed(self) -> bool:
        self._stopped = self._stopped or not self._may_go_on()
        return not self._stopped

    def _rest(self, lane: Lane) -> None:
        if lane:
            heapq.heappush(self._idle, (lane[0].due, next(self._numbers), lane))

    def _raise(self) -> None:
        if self._failures:
            raise next((each for each in self._failures if not isinstance(each, Refused)), self._failures[0])


def _seconds_to(due: int) -> float:
    return due / 1000 - time.time()
