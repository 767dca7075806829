"""What a connection was given to send, and how much of it the peer's system has taken."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from asyncio.trsock import TransportSocket
from collections.abc import Callable
from typing import Final

from replicator.client.writer import SocketWriter

__all__ = ["SendQueue", "unacknowledged"]

#: Seconds without a byte being taken after which a line is no longer slow, but dead.
_DEAD: Final = 10.0
#: Bytes of the number that the system gives, a C `int`.
_SIZE: Final = 4


def unacknowledged(sock: socket.socket | TransportSocket | None) -> int:
    """Bytes in the send queue of `sock`; 0 also where the system does not tell (macOS), or it is closed.

    Args:
        sock: None: the transport that has it is closed.
    """
    descriptor = -1 if sock is None else sock.fileno()
    if descriptor < 0:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(_SIZE)), sys.byteorder)
    except OSError:
        return 0


class SendQueue:
    """The bytes of one connection, in the order in which they were given.

    Args:
        writer: who writes; None: `transport` does.
        clock: monotonic, in seconds.

    Attributes:
        given: bytes so far; whoever gives some adds them.
        has_tls: whether the bytes go through TLS, which has some on its own way.
    """

    def __init__(
        self, transport: asyncio.Transport, writer: SocketWriter | None, clock: Callable[[], float]
    ) -> None:
        self.given = 0
        self._transport = transport
        self._writer = writer
        self._clock = clock
        self.has_tls = transport.get_extra_info("sslcontext") is not None
        #: When it was measured last: bytes still on this side, bytes that had been taken, and since when these.
        self._left = 0
        self._taken = 0
        self._taken_at = clock()

    def measure(self) -> None:
        """Measures how much was taken; what is asked otherwise is as of the last time."""
        self._left = self.waiting
        if (taken := self.given - self._left) > self._taken:
            self._taken, self._taken_at = taken, self._clock()

    @property
    def waiting(self) -> int:
        """Bytes that are still on this side now."""
        own = self._transport.get_write_buffer_size() if self._writer is None else self._writer.waiting
        return own + unacknowledged(self._transport.get_extra_info("socket"))

    @property
    def taken(self) -> int:
        """Bytes that the peer's system had taken; with TLS roughly, since records have other lengths."""
        return self._taken

    def has_taken(self, end: int) -> bool:
        """Whether the peer's system had taken the first `end` bytes; with TLS that is sure only when it has all."""
        return not self._left or (not self.has_tls and end <= self._taken)

    @property
    def is_moving(self) -> bool:
        """Whether something is left, and was getting less lately."""
        return self._left > 0 and self._clock() - self._taken_at < _DEAD
