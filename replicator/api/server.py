"""uvicorn inside the worker's own loop: it does not handle signals, and its port is known before it serves."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn

from replicator.api.deferred import Application
from replicator.errors import StartupError
from replicator.settings import RestTls

__all__ = ["Server", "bind"]


def bind(host: str, port: int) -> socket.socket:
    """A bound socket.

    Raises:
        StartupError: the address is in use, or does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise StartupError(
            f"rest.host = {host!r}, rest.port = {port} cannot be used ({error.strerror})",
            hint="give another port with --rest-port, or 0 for any free one",
        ) from None
    return sock


class Server(uvicorn.Server):
    """Serves `app` on a bound socket until `should_exit` is set; over TLS if there is a certificate.

    Raises:
        StartupError: the certificate, its key or the clients' CA is not valid, or they do not belong together.
    """

    def __init__(self, app: Application, sock: socket.socket, tls: RestTls) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ssl_certfile=tls.cert_file,
            ssl_keyfile=tls.key_file,
            ssl_ca_certs=None if tls.ca_file is None else str(tls.ca_file),
            ssl_cert_reqs=ssl.CERT_NONE if tls.ca_file is None else ssl.CERT_REQUIRED,
        )
        try:
            config.load()
        except OSError as error:  # includes OpenSSL's errors
            raise StartupError(
                f"rest.tls.cert_file = {str(tls.cert_file)!r}, rest.tls.key_file = {str(tls.key_file)!r}, "
                f"rest.tls.ca_file = {str(tls.ca_file)!r} cannot be used ({error.strerror or error})",
                hint="give PEM files: the certificate with its chain, and its own key without a password",
            ) from None
        super().__init__(config)
        self._bound = sock
        self._scheme = "http" if tls.cert_file is None else "https"

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The service handles signals."""
        yield

    async def run_on_socket(self) -> None:
        await self.serve(sockets=[self._bound])

    @property
    def url(self) -> str:
        """The bound address."""
        host, port = self._bound.getsockname()[:2]
        return f"{self._scheme}://" + (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
