"""One address of a cluster: a connection that is made when needed and made again when lost.

Attempts are spaced by jittered exponential backoff. While one attempt runs or the backoff lasts,
everyone waits for the same attempt, so a dead broker sees at most one knock at a time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from replicator.aio.backoff import Backoff
from replicator.client.address import split_address
from replicator.client.connection import Connection
from replicator.client.look import silence_of
from replicator.client.proxy_connection import ProxyConnection
from replicator.client.refused import refused
from replicator.client.security import Security
from replicator.errors import ClientError, NoTls, Unreachable
from replicator.observe.logging import get_logger
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame

__all__ = ["CONNECT_TIMEOUT", "REQUEST_TIMEOUT", "Endpoint"]

#: Seconds until a TCP and TLS handshake must be done. RocketMQ's own clients allow 3.
CONNECT_TIMEOUT: Final = 3.0
#: Seconds until an answer is overdue; RocketMQ's own clients allow 3 for sends. Admin tables of
#: thousands of topics take longer.
REQUEST_TIMEOUT: Final = 10.0

#: Seconds between attempts: the first, and the most.
_BACKOFF_FIRST: Final = 0.2
_BACKOFF_MOST: Final = 5.0

log = get_logger(__name__)


def _reason(error: OSError) -> str:
    """What the system calls it; event loops put words of their own in its place."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)


class Endpoint:
    """Requests to `address` (`host:port`), over one connection at a time.

    Args:
        may_go_on: as in `Connection`.
        identify: asked of each new connection, before it is used; it raises where somebody else answers.
        behind: as in `Connection`.
    """

    def __init__(
        self,
        address: str,
        security: Security,
        *,
        may_go_on: Callable[[], bool] | None = None,
        identify: Callable[[Connection], Awaitable[None]] | None = None,
        behind: str = "",
    ) -> None:
        self.address = address
        self.behind = behind
        self._security = security
        self._may_go_on = may_go_on
        self._identify = identify
        self._connection: Connection | None = None
        self._attempt: asyncio.Task[Connection] | None = None
        self._backoff = Backoff(_BACKOFF_FIRST, _BACKOFF_MOST)
        self._not_before = 0.0
        self._why = ""

    @property
    def live(self) -> Connection | None:
        """The connection, if there is one now."""
        connection = self._connection
        return None if connection is None or connection.closed else connection

    @property
    def failing(self) -> bool:
        """Whether the last attempt at a connection failed."""
        return self.live is None and self._backoff.attempts > 0

    def refuse_pause(self) -> None:
        """For whoever looks at many brokers again and again, and must not be kept by one that is down.

        Raises:
            Unreachable: the last attempt at a connection failed, and it is not time for the next one.
        """
        if self.failing and self._not_before > asyncio.get_running_loop().time():
            raise Unreachable(self.address, self._why)

    async def connection(self) -> Connection:
        """A live connection; waits out the backoff of earlier failures first.

        Raises:
            Unreachable: this attempt failed, or this is a look in which it has not answered (`looking`).
        """
        if why := silence_of(self.address):
            raise Unreachable(self.address, why)
        connection = self._connection
        if connection is not None and not connection.closed:
            return connection
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._connect(), name=f"connect {self.address}")
            self._attempt.add_done_callback(self._attempted)
        attempt = self._attempt
        await asyncio.wait([attempt])
        if attempt.cancelled():
            raise Unreachable(self.address, "closed by us")
        return attempt.result()

    def _attempted(self, attempt: asyncio.Task[Connection]) -> None:
        self._attempt = None
        if not attempt.cancelled():
            attempt.exception()  # seen here too, should every waiter have been cancelled

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        self._judge_last()
        if (wait := self._not_before - loop.time()) > 0:
            await asyncio.sleep(wait)
        tls = self._security.tls
        try:
            host, port = split_address(self.address)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                connection = await self._open(host, port, tls)
        except TimeoutError:
            raise self._failed(f"no connection within {CONNECT_TIMEOUT:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise self._failed(f"its certificate is not trusted: {error.verify_message}", NoTls) from None
        except ssl.SSLError as error:
            raise self._failed(f"TLS handshake failed: {error.reason or error}", NoTls) from None
        except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
            broken_off = "TLS handshake aborted by the peer; it may require a client certificate"
            if tls is not None:
                raise self._failed(broken_off, NoTls) from None
            raise self._failed(_reason(error)) from None
        except OSError as error:
            raise self._failed(_reason(error)) from None
        except ValueError as error:  # addresses come from peers too; a host name may be none
            raise self._failed(str(error)) from None
        await self._introduce(connection)
        self._connection = connection
        log.debug("connected", address=self.address, tls=tls is not None)
        return connection

    async def _introduce(self, connection: Connection) -> None:
        if self._identify is None:
            return
        try:
            await self._identify(connection)
        except ClientError as error:
            connection.close()
            if isinstance(error, Unreachable):
                self._back_off()
                self._why = error.reason
                raise
            raise self._failed(error.message) from None
        except BaseException:
            connection.close()
            raise

    async def _open(self, host: str, port: int, tls: ssl.SSLContext | None, *, alone: bool = False) -> Connection:
        loop, name = asyncio.get_running_loop(), host if tls is not None else None

        async def another() -> Connection:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._open(host, port, tls, alone=True)

        def make() -> Connection:
            more = self._security, self._may_go_on
            if self.behind and not alone:
                return ProxyConnection(self.address, *more, behind=self.behind, connect=another)
            return Connection(self.address, *more, behind=self.behind)

        if (socks := self._security.socks) is None:
            _, connection = await loop.create_connection(make, host, port, ssl=tls, server_hostname=name)
        else:
            sock = await socks.connect(host, port)
            _, connection = await loop.create_connection(make, sock=sock, ssl=tls, server_hostname=name)
        return connection

    def _judge_last(self) -> None:
        """A connection that ended without an answer on it was a failure too: whoever takes connections and
        drops them must not be knocked at without a pause.
        """
        last, self._connection = self._connection, None
        if last is None:
            return
        if last.heard:
            self._backoff.reset()
            self._not_before = 0.0
        else:
            self._why = "it ended the last connection without an answer"
            self._back_off()

    def _failed(self, reason: str, kind: type[Unreachable] = Unreachable) -> Unreachable:
        self._back_off()
        self._why = reason
        log.debug("not connected", address=self.address, reason=reason)
        return kind(self.address, reason)

    def _back_off(self) -> None:
        self._not_before = asyncio.get_running_loop().time() + self._backoff.next()

    async def invoke(
        self,
        code: int,
        fields: Mapping[str, str],
        *,
        body: Sequence[bytes] = (),
        timeout: float = REQUEST_TIMEOUT,
    ) -> Frame:
        """Sends a request and waits for its answer, whatever its code.

        Raises:
            Unreachable, RequestTimeout: see there.
        """
        connection = await self.connection()
        return await connection.invoke(code, fields, body=body, timeout=timeout)

    async def ask(
        self,
        code: int,
        fields: Mapping[str, str],
        *,
        body: Sequence[bytes] = (),
        timeout: float = REQUEST_TIMEOUT,
    ) -> Frame:
        """As `invoke`, for requests of which only success is of use.

        Raises:
            BrokerRefused: any other code.
        """
        answer = await self.invoke(code, fields, body=body, timeout=timeout)
        if answer.code != Response.SUCCESS:
            raise refused(self.address, code, answer)
        return answer

    def drop(self) -> None:
        """Ends the connection, with all that was not yet delivered; the next request makes another."""
        if self._connection is not None:
            self._connection.close()

    def abandon(self) -> None:
        """Ends the connection, and any attempt at one; nobody asks here any more."""
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            self._connection.close()

    async def close(self) -> None:
        """Ends the connection, and returns when any attempt at one has ended."""
        attempt = self._attempt
        self.abandon()
        if attempt is not None:
            await asyncio.wait([attempt])
