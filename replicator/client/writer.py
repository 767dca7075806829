"""Writes to a socket whose reading is asyncio's, and asks before it goes on with what did not fit at once.

A transport that asyncio or uvloop gives writes by itself what the kernel did not take: a process that was
paused in the middle of a request would finish it when it wakes up, long after others took over its work.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["SocketWriter"]

#: Bytes that may wait to be written before senders are told to wait.
_HIGH_WATER: Final = 8 * 1024 * 1024


class SocketWriter:
    """Writes to the socket with descriptor `descriptor`, which somebody else reads and closes.

    Args:
        may_go_on: asked before any bytes that did not fit at once are written.
        on_full: told whether senders should wait.
        on_broken: told why nothing can be written any more.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        may_go_on: Callable[[], bool],
        on_full: Callable[[bool], None],
        on_broken: Callable[[str], None],
    ) -> None:
        # Event loops watch a descriptor for one party only, so this one is ours.
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._may_go_on = may_go_on
        self._on_full = on_full
        self._on_broken = on_broken
        self._waiting: deque[memoryview] = deque()
        self._size = 0
        self._full = False

    def write(self, data: bytes) -> None:
        """Writes `data` behind all that was given before."""
        rest = memoryview(data)
        if not self._waiting:
            rest = self._send(rest)
            if not rest:
                return
            self._loop.add_writer(self._socket.fileno(), self._go_on)
        self._waiting.append(rest)
        self._size += len(rest)
        if self._size > _HIGH_WATER and not self._full:
            self._full = True
            self._on_full(True)

    def _send(self, data: memoryview) -> memoryview:
        try:
            return data[self._socket.send(data) :]
        except (BlockingIOError, InterruptedError):
            return data
        except OSError as error:
            self._on_broken(error.strerror or str(error))
            return data[len(data) :]

    def _go_on(self) -> None:
        if not self._may_go_on():
            self._on_broken("given up in the middle of a request: this worker may not send now")
            return
        while self._waiting:
            first = self._waiting[0]
            rest = self._send(first)
            self._size -= len(first) - len(rest)
            if rest:
                self._waiting[0] = rest
                return
            if not self._waiting:
                return  # broken, and closed
            self._waiting.popleft()
        self._loop.remove_writer(self._socket.fileno())
        if self._full:
            self._full = False
            self._on_full(False)

    def close(self) -> None:
        """Writes nothing any more; what waited is dropped."""
        if self._socket.fileno() >= 0:
            self._loop.remove_writer(self._socket.fileno())
            self._waiting.clear()
            self._socket.close()
