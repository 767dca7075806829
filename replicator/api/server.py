"""uvicorn inside the worker's own loop: it does not take over signals, and its port is known at once."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from replicator.errors import StartupError

__all__ = ["Server", "bind"]


def bind(host: str, port: int) -> socket.socket:
    """A bound socket.

    Raises:
        StartupError: the address is taken, or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise StartupError(
            f"rest_host = {host!r}, rest_port = {port} cannot be used ({error.strerror})",
            hint="give another port with --rest-port, or 0 for any free one",
        ) from None
    return sock


class Server(uvicorn.Server):
    """Serves `app` on a bound socket until `should_exit` is set."""

    def __init__(self, app: FastAPI, sock: socket.socket) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        self._bound = sock

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the service's."""
        yield

    async def run_on_socket(self) -> None:
        await self.serve(sockets=[self._bound])

    @property
    def address(self) -> str:
        """host:port as bound."""
        host, port = self._bound.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
