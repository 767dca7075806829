"""SIGTERM and SIGINT: the first asks for an orderly end, the second for an immediate one; others do nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["StopSignals"]

T = TypeVar("T")


class StopSignals:
    """Handles both signals from now on; the second one cancels the task that has made this object."""

    def __init__(self) -> None:
        self._main = asyncio.current_task()
        self._on_first: Callable[[signal.Signals], None] = lambda _: None
        #: Set by the first signal.
        self.asked = asyncio.Event()
        #: The second signal, once it has come.
        self.second: signal.Signals | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._received, number)

    def on_first(self, call: Callable[[signal.Signals], None]) -> None:
        """Has `call` called with the first signal, in place of what was set before."""
        self._on_first = call

    def end(self) -> None:
        """From now on no signal cancels the maker, which is cleaning up and ends soon."""
        self._main = None

    def _received(self, number: signal.Signals) -> None:
        if not self.asked.is_set():
            self.asked.set()
            self._on_first(number)
        elif self._main is not None and self.second is None:  # a third one would cancel what the second began
            self.second = number
            self._main.cancel()

    async def unless_asked(self, work: Awaitable[T]) -> T | None:
        """The result of `work`; None where the first signal came before it: `work` is cancelled then."""
        working = asyncio.ensure_future(work)
        asked = asyncio.create_task(self.asked.wait())
        try:
            await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            if not working.done():
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
        return None if working.cancelled() else working.result()
