"""Lets long polls wait while the worker is busy, so that each answer has more messages and there are fewer of them.

With a few messages a second in each of many queues an answer has one message, and costs its pull, its wake-up and a
send of its own. A worker that keeps up makes the next pull at once. One that does not would be late anyway, and
copies twice as much if each answer has twice as many messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["PollPacer"]

#: Seconds that a long poll waits at most.
_MOST: Final = 0.25
#: Seconds by which the event loop is late, on average, when it has more to do than it can.
_BUSY: Final = 0.005
#: Seconds between two looks at how late it is, and long polls until the first one.
_LOOK: Final = 0.02
_EVERY: Final = 64
#: Part of a new look in the average.
_WEIGHT: Final = 0.2
#: Seconds by which the wait grows and shrinks at each look.
_UP: Final = 0.010
_DOWN: Final = 0.002
#: Seconds between two releases of those that wait.
_TICK: Final = 0.010


class PollPacer:
    """The long polls of a route.

    Attributes:
        wait: seconds that a long poll waits now.
    """

    def __init__(self) -> None:
        self.wait = 0.0
        self._late = 0.0
        self._made = 0
        self._looking = False
        self._line: deque[tuple[float, Callable[[], None]]] = deque()

    def make(self, poll: Callable[[], None]) -> None:
        """Calls `poll`: at once while the worker keeps up, else a little later."""
        self._made += 1
        if not self._looking and self._made % _EVERY == 0:
            self._look(asyncio.get_running_loop())
        if not self.wait and not self._line:
            poll()
            return
        loop = asyncio.get_running_loop()
        if not self._line:
            loop.call_later(_TICK, self._release, loop)
        self._line.append((loop.time() + self.wait, poll))

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        line, now = self._line, loop.time()
        try:
            while line and (not self.wait or line[0][0] <= now):
                line.popleft()[1]()
        finally:  # a bug in one of them keeps none of the others waiting
            if line:
                loop.call_later(_TICK, self._release, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = True
        loop.call_later(_LOOK, self._looked, loop, loop.time() + _LOOK)

    def _looked(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._looking = False
        self._late += _WEIGHT * (max(0.0, loop.time() - due) - self._late)
        self.wait = min(_MOST, self.wait + _UP) if self._late > _BUSY else max(0.0, self.wait - _DOWN)
        if self.wait:
            self._look(loop)
