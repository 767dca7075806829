"""The log of a worker that runs alone: what it writes comes back to it at once, and goes nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable

from replicator.group.control_log import LogMessage
from replicator.routing.message_queue import MessageQueue

__all__ = ["LocalLog"]


class LocalLog:
    """Takes the place of `ControlLog` where there is no group."""

    def __init__(self, on_said: Callable[[LogMessage], None]) -> None:
        self._on_said = on_said

    @property
    def caught_up(self) -> bool:
        return True

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        self._on_said(LogMessage(MessageQueue(topic, "", 0), body, int(time.time() * 1000)))

    async def open(self, there: object) -> None:
        """There is nothing to open."""

    async def refresh(self) -> None:
        """There is nothing to look for."""

    def forget(self, broker: str) -> None:
        """It is on no broker."""

    async def close(self) -> None:
        """There is nothing to close."""
