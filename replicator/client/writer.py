"""Writes to a socket whose reading is asyncio's, and asks before it goes on with what did not fit at once.

A transport that asyncio or uvloop gives writes by itself what the kernel did not take: a process that was
paused in the middle of a request would finish it when it wakes up, long after others took over its work.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["SocketWriter"]

#: Bytes that may wait to be written before senders are told to wait.
_HIGH_WATER: Final = 8 * 1024 * 1024
#: What the kernel takes at once (`IOV_MAX`).
_MOST_PIECES: Final = 1024


class SocketWriter:
    """Writes to what `sock` is connected to, which somebody else reads and closes.

    Args:
        sock: a socket, or the one that a transport gives; it is used to make another one for the same connection.
        may_go_on: asked when bytes are given and when they are written: what might be sent at first is not
            sent once it may not be any more.
        on_full: told whether senders should wait.
        on_broken: told why nothing can be written any more.
    """

    def __init__(
        self,
        sock: socket.socket | TransportSocket,
        *,
        may_go_on: Callable[[], bool],
        on_full: Callable[[bool], None],
        on_broken: Callable[[str], None],
    ) -> None:
        # Event loops watch a descriptor for one party only, so this one is ours.
        self._socket = sock.dup()
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._may_go_on = may_go_on
        self._on_full = on_full
        self._on_broken = on_broken
        self._waiting: list[bytes | memoryview] = []
        self._size = 0
        self._full = False
        #: Whether the kernel did not take all, and is being waited for.
        self._blocked = False
        #: Whether some of what waits was given while it might be sent.
        self._allowed = False

    @property
    def waiting(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._size

    def write(self, pieces: Sequence[bytes]) -> None:
        """Writes `pieces` behind all that was given before, in the event loop's next turn.

        What many senders give in one turn goes out in one system call.
        """
        if not self._waiting:
            self._allowed = False
            self._loop.call_soon(self._go_on)
        self._allowed = self._allowed or self._may_go_on()
        self._waiting.extend(pieces)
        self._size += sum(map(len, pieces))
        if self._size > _HIGH_WATER and not self._full:
            self._full = True
            self._on_full(True)

    def _send(self, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Gives what the kernel did not take."""
        try:
            sent = self._socket.sendmsg(pieces[:_MOST_PIECES])
        except (BlockingIOError, InterruptedError):
            return pieces
        except OSError as error:
            self._on_broken(error.strerror or str(error))
            return ()
        for at, piece in enumerate(pieces):
            if sent < len(piece):
                return (memoryview(piece)[sent:], *pieces[at + 1 :])
            sent -= len(piece)
        return ()

    def _go_on(self) -> None:
        if not self._waiting or self._socket.fileno() < 0:
            return
        if (self._allowed or self._blocked) and not self._may_go_on():
            self._on_broken("request aborted: this worker may not send now")
            return
        self._waiting = list(self._send(self._waiting))
        self._size = sum(map(len, self._waiting))
        if self._socket.fileno() < 0:
            return  # broken, and closed
        if self._blocked != bool(self._waiting):
            self._blocked = not self._blocked
            if self._blocked:
                self._loop.add_writer(self._socket.fileno(), self._go_on)
            else:
                self._loop.remove_writer(self._socket.fileno())
        if self._full and not self._waiting:
            self._full = False
            self._on_full(False)

    def close(self) -> None:
        """Writes nothing any more; what waited is dropped."""
        if self._socket.fileno() >= 0:
            self._loop.remove_writer(self._socket.fileno())
            self._waiting.clear()
            self._size = 0
            self._socket.close()
