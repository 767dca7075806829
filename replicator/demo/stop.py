"""Handles Ctrl-C: the first one drains, if there is something to drain; the second ends immediately."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Stop"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """`wanted` is set to drain; to end immediately, `task` is cancelled."""

    def __init__(self, task: asyncio.Task[int]) -> None:
        self.wanted = asyncio.Event()
        self.signal: signal.Signals | None = None
        self.at_once = False
        self._task = task
        self._may_drain = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handles signals, within the context."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._take, number)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def drain_from_now_on(self) -> None:
        """From now on the first signal drains."""
        self._may_drain = True

    def _take(self, number: signal.Signals) -> None:
        self.signal = self.signal or number
        # SIGHUP: the terminal has gone, and with it the summary.
        if self._may_drain and not self.wanted.is_set() and number != signal.SIGHUP:
            self.wanted.set()
        elif not self.at_once:  # a third signal must not disturb the cleanup
            self.at_once = True
            self._task.cancel()
