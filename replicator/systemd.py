"""Notifies systemd of a service of Type=notify: sd_notify(3), a datagram to the socket that it names."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import Final

from replicator.observe.logging import get_logger

__all__ = ["alive", "ready", "relay", "stopping", "waiting"]

#: Seconds until a notification is given up: the socket takes some ten, and systemd reads them at once.
_PATIENCE: Final = 1.0

log = get_logger(__name__)


def ready(status: str) -> None:
    """It serves; `status` is what `systemctl status` shows."""
    _notify("READY=1", f"STATUS={status}")


def waiting(status: str, seconds: float) -> None:
    """It has not started yet, and needs so many seconds more at least."""
    _notify(f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={round(seconds * 1_000_000)}")


def stopping() -> None:
    """It drains, and ends."""
    _notify("STOPPING=1", "STATUS=draining")


def alive() -> None:
    """Must be sent more often than every WatchdogSec, or systemd restarts the service."""
    _notify("WATCHDOG=1", seconds=0.0)  # where it has not heard the last ones, another says nothing new


def relay(words: Iterable[str]) -> None:
    """What a process of ours says of its start."""
    _notify(*(word for word in words if word.startswith(("STATUS=", "EXTEND_TIMEOUT_USEC="))))


def _notify(*words: str, seconds: float = _PATIENCE) -> None:
    """Sends it; who does not take it within so many seconds does not hear it, since all else waits meanwhile."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address or not words:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(seconds)
            channel.sendto("\n".join(words).encode(), "\0" + address[1:] if address[0] == "@" else address)
    except OSError as error:
        log.warning("systemd cannot be notified", socket=address, reason=str(error))
