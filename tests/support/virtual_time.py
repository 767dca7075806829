"""An event loop whose time goes on by itself as soon as nothing is left to do: hours pass in seconds.

Nothing in it may wait for a socket, a thread or a process.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

__all__ = ["VirtualLoop", "WallClock"]


class _NoWaiting(selectors.SelectSelector):
    """Does not wait, but says how long it would have."""

    def __init__(self, passes: Callable[[float], None]) -> None:
        super().__init__()
        self._passes = passes

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self._passes(max(timeout, 0.0))
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 0."""

    def __init__(self) -> None:
        self._virtual = 0.0
        super().__init__(_NoWaiting(self._pass))

    def time(self) -> float:
        return self._virtual

    def _pass(self, seconds: float) -> None:
        # A hair more than was asked for, or a timer could stay in the future by a rounding error.
        self._virtual += seconds + 1e-9 if seconds else 0.0


class WallClock:
    """In place of the module `time`: what a clock shows that is `ahead` of a virtual loop by some seconds."""

    def __init__(self) -> None:
        self.ahead = 1_700_000_000.0

    def time(self) -> float:
        return self.ahead + asyncio.get_running_loop().time()
