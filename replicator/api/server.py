"""uvicorn inside the worker's own loop: it does not handle signals, and its port is known before it serves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from replicator.api.deferred import Application
from replicator.errors import ConfigError, StartupError
from replicator.settings import RestTls

__all__ = ["Server", "bind"]

#: Seconds in which the head of a request must have come.
_HEADER_SECONDS: Final = 15.0
#: Seconds that requests have left once the worker has ended: a client that does not read must not keep it.
_LAST_ANSWERS: Final = 5


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


class _TimedProtocol(H11Protocol):
    """Ends a connection on which no request has begun in time: uvicorn waits for the rest of one for ever."""

    header_seconds = _HEADER_SECONDS
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()

    def _wait(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(self.header_seconds, self._end_unless_asked)

    def _end_unless_asked(self) -> None:
        asked = getattr(self, "cycle", None)  # None before the first request, whatever uvicorn's types say
        if asked is None or asked.response_complete:
            self.transport.close()


class Server(uvicorn.Server):
    """Serves `app` on a bound socket until `should_exit` is set; over TLS if there is a certificate.

    Raises:
        StartupError: the certificate, its key or the clients' CA is not valid, or they do not belong together.
    """

    def __init__(self, app: Application, sock: socket.socket, tls: RestTls) -> None:
        config = uvicorn.Config(
            app,
            http=_TimedProtocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # or whoever asks from this machine could pass for any other
            timeout_graceful_shutdown=_LAST_ANSWERS,
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
        self._tls = tls
        self._scheme = "http" if tls.cert_file is None else "https"

    def renew_certificate(self) -> None:
        """Reads the certificate and its key again: new connections are shown it.

        Raises:
            ConfigError: they cannot be used; the one from before stays in use.
        """
        cert, key = self._tls.cert_file, self._tls.key_file
        if self.config.ssl is None or cert is None:
            return
        try:
            # On a context of its own first: one of two files that do not belong together would stay in use.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
            self.config.ssl.load_cert_chain(cert, key)
        except OSError as error:  # includes OpenSSL's errors
            raise ConfigError(
                f"rest.tls.cert_file = {str(cert)!r} with rest.tls.key_file = {str(key)!r} cannot be used"
                f" ({error.strerror or error})",
                hint="give PEM files: the certificate with its chain, and its own key without a password",
            ) from None

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
