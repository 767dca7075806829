"""What the system has taken of a connection's bytes, and the peer's system has not yet."""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from asyncio.trsock import TransportSocket
from typing import Final

__all__ = ["unacknowledged"]

#: Bytes of the number that the system gives, a C `int`.
_SIZE: Final = 4


def unacknowledged(sock: socket.socket | TransportSocket) -> int:
    """Bytes in the send queue of `sock`; 0 also where the system does not tell (macOS), or it is closed."""
    descriptor = sock.fileno()
    if descriptor < 0:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(_SIZE)), sys.byteorder)
    except OSError:
        return 0
