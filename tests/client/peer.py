"""A peer in this process that speaks frames and misbehaves on request."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, cast

from replicator.client.connection import Connection
from replicator.client.security import Credentials, Security
from replicator.protocol.frame import Frame, FrameDecoder
from replicator.sandbox.ports import PortBlock, lease

Handler = Callable[["Session", Frame], None]

_PORTS: list[PortBlock] = []


class Session(asyncio.Protocol):
    """One connection to the peer. `requests` and `answers` are what came on it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._decoder = FrameDecoder()
        self.requests: list[Frame] = []
        self.answers: list[Frame] = []
        self.lost = False
        #: Seconds in which nothing is read, after each read.
        self.pause = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._peer.sessions.append(self)
        if self._peer.on_connect is not None:
            self._peer.on_connect(self)

    def data_received(self, data: bytes) -> None:
        if self.pause:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(self.pause, self.transport.resume_reading)
        for frame in feed(self._decoder, data):
            if frame.is_response:
                self.answers.append(frame)
            else:
                self.requests.append(frame)
                self._peer.handler(self, frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    def answer(
        self,
        request: Frame,
        code: int = 0,
        *,
        remark: str = "",
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        self.send(frame(code, request.opaque, flag=1, remark=remark, fields=fields, body=body))


class Peer:
    """Serves on a free port of loopback; `handler` is called with each request."""

    def __init__(
        self,
        handler: Handler = Session.answer,
        *,
        tls: ssl.SSLContext | None = None,
        on_connect: Callable[[Session], None] | None = None,
        port: int = 0,
    ) -> None:
        self.handler = handler
        self.on_connect = on_connect
        self.sessions: list[Session] = []
        self.port = port
        self._tls = tls
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Frame]:
        return [request for session in self.sessions for request in session.requests]

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Session(self), "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Ends the server and all its connections."""
        if self._server is not None:
            self._server.close()
            for session in self.sessions:
                session.transport.abort()
            await self._server.wait_closed()
            self._server = None


@asynccontextmanager
async def connected(
    peer: Peer, credentials: Credentials | None = None, *, may_go_on: Callable[[], bool] | None = None
) -> AsyncIterator[Connection]:
    """A connection to `peer`."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Connection(peer.address, Security(credentials), may_go_on), "127.0.0.1", peer.port
    )
    try:
        yield connection
    finally:
        connection.close()


def feed(decoder: FrameDecoder, data: bytes) -> list[Frame]:
    """The frames that `data` makes whole, as if it had been read from a socket."""
    frames: list[Frame] = []
    while data:
        room = decoder.room()
        size = min(len(room), len(data))
        room[:size], data = data[:size], data[size:]
        frames += decoder.take(size)
    return frames


def frame(
    code: int,
    opaque: int,
    *,
    flag: int = 0,
    remark: str = "",
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """A frame put together by hand."""
    said = {"code": code, "opaque": opaque, "flag": flag, "remark": remark, "extFields": dict(fields or {})}
    header = json.dumps(said).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def silent(session: Session, request: Frame) -> None:
    """A handler that says nothing."""


def deafen(session: Session) -> None:
    """It reads nothing, and its kernel takes little, whatever `net.ipv4.tcp_rmem` lets it."""
    session.transport.pause_reading()
    session.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)


def hang_up(session: Session) -> None:
    """Takes connections and drops them."""
    session.transport.abort()


def unused_port() -> int:
    """A port where nothing listens, nor two below it; nobody else gets it as long as this process runs.

    Not one of those that the kernel gives to outgoing connections: one may take it before a test listens there.
    """
    _PORTS.append(lease())
    return _PORTS[-1].base + 2
