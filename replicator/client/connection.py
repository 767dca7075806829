"""One TCP connection: requests go out, answers find the request that they belong to.

Answers may come in any order. A request that has no answer in time ends with `RequestTimeout`; its
answer, should it come later, is dropped. A peer's own requests are answered, never obeyed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from replicator.client.line_window import LineWindow
from replicator.client.security import Security
from replicator.client.send_queue import unacknowledged
from replicator.client.writer import SocketWriter
from replicator.errors import ClientError, NoTls, ProtocolError, RequestTimeout, Unreachable
from replicator.observe.logging import get_logger
from replicator.protocol.codes import Response
from replicator.protocol.frame import ONE_WAY, RESPONSE, Frame, FrameDecoder, encode_answer, encode_request
from replicator.protocol.signing import sign

__all__ = ["Answer", "Connection", "OnAnswer"]

log = get_logger(__name__)

#: What comes of a request.
Answer = Frame | ClientError
OnAnswer = Callable[[Answer], None]

#: Seconds between two looks for requests that are overdue; one timer serves all requests.
_SWEEP: Final = 0.25

#: SO_LINGER on, 0 s: closing the socket resets it.
_RESET: Final = struct.pack("ii", 1, 0)

#: What a frame begins with.
_LENGTH: Final = struct.Struct(">I")

#: Bytes in the socket's own buffer above which senders wait.
_HIGH_WATER: Final = 8 * 1024 * 1024


class Connection(asyncio.BufferedProtocol):
    """A live connection to `address`; made by `Endpoint`, gone when `closed` is set.

    `heard` says that a frame has come: the peer is one, and serves. `line` limits large answers under way.

    Args:
        security: in whose name each request is signed.
        may_go_on: asked before the rest of a request is written that did not fit into the socket at once; where
            it says no, the connection ends. Not with TLS, whose records are written by others.
    """

    def __init__(self, address: str, security: Security, may_go_on: Callable[[], bool] | None = None) -> None:
        self.address = address
        self.closed = False
        self.heard = False
        self._security = security
        self._loop = asyncio.get_running_loop()
        self.line = LineWindow(self._loop.time)
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        self._opaque = itertools.count(1)
        self._waiting: dict[int, tuple[OnAnswer, float, float, int]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._last_heard = self._loop.time()
        self._writable = asyncio.Event()
        self._writable.set()
        self._why_closed = "closed by us"
        self._held: list[bytes] | None = None
        self._may_go_on = may_go_on
        self._writer: SocketWriter | None = None
        #: Bytes of all requests so far.
        self._given = 0

    def request(
        self,
        code: int,
        fields: Mapping[str, str],
        on_answer: OnAnswer,
        *,
        body: Sequence[bytes] = (),
        timeout: float,
    ) -> None:
        """Sends a request; `on_answer` is called exactly once, never before this returns.

        Args:
            timeout: seconds until `RequestTimeout`.
        """
        if self.closed or self._transport is None:
            self._loop.call_soon(on_answer, Unreachable(self.address, self._why_closed))
            return
        if (account := self._security.credentials) is not None:
            fields = sign(fields, body, access_key=account.access_key, secret_key=account.secret_key)
        opaque = next(self._opaque) & 0x7FFFFFFF
        now = self._loop.time()
        self._waiting[opaque] = (on_answer, now, now + timeout, code)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)
        self._write(encode_request(code, opaque, fields, body=body))

    def _write(self, frame: Sequence[bytes]) -> None:
        """Writes a frame, which begins with how long the rest of it is, behind all others."""
        self._given += _LENGTH.size + _LENGTH.unpack_from(frame[0])[0]
        if self._held is None:
            self._write_out(frame)
        else:
            self._held += frame

    def _write_out(self, pieces: Sequence[bytes]) -> None:
        if self._writer is not None:
            self._writer.write(pieces)
        elif self._transport is not None:
            self._transport.writelines(pieces)

    async def invoke(
        self, code: int, fields: Mapping[str, str], *, body: Sequence[bytes] = (), timeout: float
    ) -> Frame:
        """Sends a request and waits for its answer.

        Args:
            timeout: seconds for the answer; where the line is full, as many to wait for it before. One that is
                written with little time left would be taken for one that the peer leaves unanswered.

        Raises:
            Unreachable, RequestTimeout: see there. Error codes are the caller's to judge.
        """
        if not self._writable.is_set():
            await self._until_writable(code, timeout)
        future: asyncio.Future[Frame] = self._loop.create_future()

        def settle(answer: Answer) -> None:
            if future.done():
                return
            if isinstance(answer, ClientError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.request(code, fields, settle, body=body, timeout=timeout)
        return await future

    async def _until_writable(self, code: int, timeout: float) -> None:
        """Waits behind what others have given.

        Raises:
            RequestTimeout: in vain; nothing of the request is written.
        """
        delivered = self._delivered
        try:
            async with asyncio.timeout(timeout):
                await self._writable.wait()
        except TimeoutError:
            if self._delivered <= delivered:
                # Who waits here has made no request yet, and late answers to earlier ones make the peer look alive:
                # nothing else would end the connection to a machine that is gone.
                self._broken("it takes nothing any more")
            raise RequestTimeout(self.address, code, timeout) from None

    @property
    def _delivered(self) -> int:
        """Bytes that the peer's system has taken, of all that were ever given; with TLS roughly."""
        return self._given - self._backlog()

    def _backlog(self) -> int:
        """Bytes that are still on this side."""
        if self._transport is None:
            return 0
        own = self._transport.get_write_buffer_size() if self._writer is None else self._writer.waiting
        return own + unacknowledged(self._transport.get_extra_info("socket"))

    def close(self) -> None:
        """Ends the connection; whoever still waits gets `Unreachable`."""
        if self._waiting:
            self._discard_unsent()
        self._end("closed by us")

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        if self._may_go_on is not None and transport.get_extra_info("sslcontext") is None:
            self._writer = SocketWriter(
                transport.get_extra_info("socket"),
                may_go_on=self._may_go_on,
                on_full=lambda full: self.pause_writing() if full else self.resume_writing(),
                on_broken=self._broken,
            )

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._last_heard = self._loop.time()
        try:
            frames = self._decoder.take(nbytes)
        except ProtocolError as error:
            self._broken(f"it does not speak the RocketMQ remoting protocol: {error}")
            return
        self.heard = self.heard or bool(frames)
        self._held = []  # what the answers lead to goes out in one write
        try:
            for frame in frames:
                self._received(frame)
        finally:
            held, self._held = self._held, None
            if held and not self.closed:
                self._write_out(held)

    def _received(self, frame: Frame) -> None:
        if frame.flag & RESPONSE:
            entry = self._waiting.pop(frame.opaque, None)
            if entry is not None:
                entry[0](frame)
        elif not frame.flag & ONE_WAY:
            # 40, 39 and others: news for push consumers, which we are not.
            self._write([encode_answer(Response.REQUEST_CODE_NOT_SUPPORTED, frame.opaque, "not a consumer")])

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        why, kind = "closed by the peer" if exc is None else str(exc) or type(exc).__name__, Unreachable
        if not self.heard and self._transport is not None and self._transport.get_extra_info("sslcontext"):
            # With TLS 1.3 a peer that misses our certificate says so only after the handshake.
            why, kind = f"{why} before any answer; it may require a client certificate", NoTls
        self._lost(why, kind)

    def _broken(self, why: str) -> None:
        self._discard_unsent()
        self._end(why)

    def _end(self, why: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._lost(why)

    def _discard_unsent(self) -> None:
        """Else the system goes on delivering requests that nobody waits for any more."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            with contextlib.suppress(OSError):  # it is gone already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _lost(self, why: str, kind: type[Unreachable] = Unreachable) -> None:
        if self.closed:
            return
        self.closed = True
        if self._writer is not None:
            self._writer.close()
        self._why_closed = why
        log.debug("connection ended", address=self.address, reason=why)
        self._writable.set()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        waiting, self._waiting = self._waiting, {}
        for on_answer, *_ in waiting.values():
            self._loop.call_soon(on_answer, kind(self.address, why))

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        overdue = [opaque for opaque, entry in self._waiting.items() if entry[2] <= now]
        silent = False
        for opaque in overdue:
            on_answer, sent, deadline, code = self._waiting.pop(opaque)
            silent = silent or self._last_heard < sent
            on_answer(RequestTimeout(self.address, code, deadline - sent))
        if silent and not self.closed:
            # Nothing at all came since: half open or hung. A new connection finds out which.
            self._broken("it stopped responding")
        elif self._waiting and not self.closed:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)
