"""The HTTP server that tells where a cluster's name servers are, as RocketMQ's clients ask it (`TopAddressing`)."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from replicator.client.address import split_address
from replicator.client.security import Security
from replicator.errors import Unreachable

__all__ = ["AddressServer"]

#: Seconds within which its whole answer must be there, and bytes that it may have: some twenty an address.
_TIMEOUT: Final = 5.0
_BYTES: Final = 65536
_LINE_END: Final = re.compile(r"[\r\n]")


class AddressServer:
    """Asks the address server at `url`, without the proxy that brokers may be reached through.

    Args:
        security: whose CAs an https URL is checked with, if it checks peers; else the system's are used.
    """

    def __init__(self, url: str, security: Security) -> None:
        self.url = url
        self._security = security

    async def read(self) -> list[str]:
        """The name servers, `host:port` each, at least one.

        Raises:
            Unreachable: it does not answer, not with 200, or with something else.
        """
        question = _Question(self.url, self._security)
        try:
            async with asyncio.timeout(_TIMEOUT):
                status, body = await asyncio.to_thread(question.ask)
        except (OSError, HTTPException, ValueError) as error:
            late = f"not whole within {_TIMEOUT:g} s" if isinstance(error, TimeoutError) else ""
            reason = late or str(error) or type(error).__name__
            raise Unreachable(self.url, f"the address server does not answer ({reason})") from None
        finally:
            question.give_up()
        if status != 200:
            raise Unreachable(self.url, f"the address server answers with status {status}")
        return self._parse(body)

    def _parse(self, body: bytes) -> list[str]:
        """As RocketMQ's clients do: the first line, with `;` between addresses."""
        line = _LINE_END.split(body.decode("utf-8", "replace").strip(), maxsplit=1)[0]
        addresses = list(dict.fromkeys(part.strip() for part in line.split(";") if part.strip()))
        try:
            for address in addresses:
                split_address(address)
        except ValueError:
            addresses = []
        if not addresses:
            raise Unreachable(
                self.url, f"the address server answers with {line[:100]!r}, not with host:port;host:port"
            )
        return addresses


class _Question:
    """One request to `url`, made by a thread, which by itself would wait as long again for each further byte."""

    def __init__(self, url: str, security: Security) -> None:
        self._url = url
        self._security = security
        self._sock: socket.socket | None = None
        self._given_up = False

    def ask(self) -> tuple[int, bytes]:
        """Status and body of the answer.

        Raises:
            OSError, HTTPException, ValueError: there is none.
        """
        parts = urlsplit(self._url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._tls())
        else:
            connection = HTTPConnection(host, port, timeout=_TIMEOUT)
        try:
            connection.connect()
            self._sock = connection.sock
            if self._given_up:  # before there was anything to end
                raise TimeoutError
            connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
            answer = connection.getresponse()
            return answer.status, answer.read(_BYTES)
        finally:
            connection.close()

    def _tls(self) -> ssl.SSLContext:
        tls = self._security.tls
        return tls if tls is not None and tls.verify_mode is ssl.CERT_REQUIRED else ssl.create_default_context()

    def give_up(self) -> None:
        """Ends the thread, if it is still at it."""
        self._given_up = True
        if self._sock is not None:
            with contextlib.suppress(OSError):  # closed already
                self._sock.shutdown(socket.SHUT_RDWR)
