"""One TCP connection: requests go out, answers find the request that they belong to.

Answers may come in any order. A request that has no answer in time ends with `RequestTimeout`; its
answer, should it come later, is dropped. A peer's own requests are answered, never obeyed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from replicator.client.line_window import LineWindow
from replicator.client.security import Security
from replicator.client.send_queue import SendQueue
from replicator.client.writer import SocketWriter
from replicator.errors import ClientError, NoTls, ProtocolError, RequestTimeout, Unreachable
from replicator.observe.logging import get_logger
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import ONE_WAY, RESPONSE, Frame, FrameDecoder, encode_answer, encode_request
from replicator.protocol.signing import sign

__all__ = ["Answer", "Connection", "OnAnswer"]

log = get_logger(__name__)

#: What comes of a request.
Answer = Frame | ClientError
OnAnswer = Callable[[Answer], None]

#: Seconds between two looks for requests that are overdue; one timer serves all requests.
_SWEEP: Final = 0.25

#: Requests that store something.
_SENDS: Final = frozenset({Request.SEND_MESSAGE_V2, Request.SEND_BATCH_MESSAGE})

#: By this a Proxy knows which broker a request is for (`AbstractRemotingActivity`); sends have another field.
_BEHIND: Final = "bname"

#: SO_LINGER on, 0 s: closing the socket resets it.
_RESET: Final = struct.pack("ii", 1, 0)

#: What a frame begins with.
_LENGTH: Final = struct.Struct(">I")

#: Bytes in the socket's own buffer above which senders wait.
_HIGH_WATER: Final = 8 * 1024 * 1024


@dataclass(slots=True)
class _Waiting:
    """A request without an answer.

    Attributes:
        seconds: for its answer.
        sent: when it was.
        deadline: when it is looked at, or is overdue.
        end: bytes of all requests up to this one.
        late: its time was up before the peer's system had taken all of it.
    """

    on_answer: OnAnswer
    code: int
    seconds: float
    sent: float
    deadline: float
    end: int
    late: bool = False


class Connection(asyncio.BufferedProtocol):
    """A live connection to `address`; made by `Endpoint`, gone when `closed` is set.

    `heard` says that a frame has come: the peer is one, and serves. `line` limits large answers under way.

    Args:
        security: in whose name each request is signed.
        may_go_on: asked before the rest of a request is written that did not fit into the socket at once; where
            it says no, the connection ends. Not with TLS, whose records are written by others. And asked again for
            a request that had to wait before anything of it was written.
        behind: the name of the broker that requests are for, where a Proxy passes them on; empty: of who answers.
    """

    def __init__(
        self,
        address: str,
        security: Security,
        may_go_on: Callable[[], bool] | None = None,
        *,
        behind: str = "",
    ) -> None:
        self.address = address
        self._more = {_BEHIND: behind} if behind else {}
        self.closed = False
        self.heard = False
        self._security = security
        self._loop = asyncio.get_running_loop()
        self.line = LineWindow(self._loop.time)
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        self._opaque = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._last_heard = -math.inf
        self._writable = asyncio.Event()
        self._writable.set()
        self._why_closed = "closed by us"
        self._held: list[bytes] | None = None
        self._may_go_on = may_go_on
        self._writer: SocketWriter | None = None
        self._queue: SendQueue | None = None

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

        If it raises on an answer, it is called once more, with a `ClientError`.

        Args:
            timeout: seconds until `RequestTimeout`.
        """
        if self.closed or self._queue is None:
            self._loop.call_soon(self._deliver, on_answer, Unreachable(self.address, self._why_closed))
            return
        if self._more:
            fields = {**fields, **self._more}
        if (account := self._security.credentials) is not None:
            fields = sign(fields, body, access_key=account.access_key, secret_key=account.secret_key)
        opaque = next(self._opaque) & 0x7FFFFFFF
        now = self._loop.time()
        self._write(encode_request(code, opaque, fields, body=body), self._queue)
        self._waiting[opaque] = _Waiting(on_answer, code, timeout, now, now + timeout, self._queue.given)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)

    def _write(self, frame: Sequence[bytes], queue: SendQueue) -> None:
        """Writes a frame, which begins with how long the rest of it is, behind all others."""
        queue.given += _LENGTH.size + _LENGTH.unpack_from(frame[0])[0]
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

        def resolve(answer: Answer) -> None:
            if future.done():
                return
            if isinstance(answer, ClientError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.request(code, fields, resolve, body=body, timeout=timeout)
        end = 0 if self._queue is None else self._queue.given
        try:
            return await future
        except asyncio.CancelledError:
            self._given_up(code, end)
            raise

    def _given_up(self, code: int, end: int) -> None:
        """Nobody waits for a request any more; a send that the peer does not have yet must not arrive later."""
        if code in _SENDS and self._queue is not None and not self.closed:
            self._queue.measure()
            if not self._queue.has_taken(end):
                self._broken("a send was cancelled before it was fully written")

    async def _until_writable(self, code: int, timeout: float) -> None:
        """Waits behind what others have given.

        Raises:
            RequestTimeout: in vain; nothing of the request is written.
        """
        queue, might_go_on = self._queue, self._may_go_on is not None and self._may_go_on()
        assert queue is not None  # noqa: S101 - nothing is full before it is connected
        queue.measure()
        taken = queue.taken
        try:
            async with asyncio.timeout(timeout):
                await self._writable.wait()
        except TimeoutError:
            queue.measure()
            if queue.taken == taken:
                # Who waits here has made no request yet, and late answers to earlier ones make the peer look alive:
                # nothing else would end the connection to a machine that is gone.
                self._broken("it no longer reads from the connection")
            raise RequestTimeout(self.address, code, timeout) from None
        if might_go_on and self._may_go_on is not None and not self._may_go_on():
            self._broken("request aborted: this worker may not send now")

    @property
    def is_moving(self) -> bool:
        """Whether the peer is still taking what was sent: answers that are late were perhaps not asked for yet."""
        if self.closed or self._queue is None:
            return False
        self._queue.measure()
        return self._queue.is_moving

    def close(self) -> None:
        """Ends the connection; whoever still waits gets `Unreachable`."""
        if self._waiting or (self._queue is not None and self._queue.waiting):  # of requests that were given up
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
        self._queue = SendQueue(self._transport, self._writer, self._loop.time)

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
                self._deliver(entry.on_answer, frame)
        elif not frame.flag & ONE_WAY and self._queue is not None and self._writable.is_set():
            # 40, 39 and others: news for push consumers, which we are not. Who reads nothing is not answered.
            answer = encode_answer(Response.REQUEST_CODE_NOT_SUPPORTED, frame.opaque, "not a consumer")
            self._write([answer], self._queue)

    def _deliver(self, on_answer: OnAnswer, answer: Answer) -> None:
        """Gives `answer` to who has asked; an error there ends neither the connection nor what others wait for.

        Whatever waits for the answer ends, too: it is told that none comes.
        """
        try:
            on_answer(answer)
        except Exception as error:
            log.error("what follows an answer failed", address=self.address, reason=repr(error), exc_info=error)
            if isinstance(answer, Frame):
                self._deliver(on_answer, ClientError(f"an answer of {self.address} could not be used ({error!r})"))

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
        for entry in waiting.values():
            self._loop.call_soon(self._deliver, entry.on_answer, kind(self.address, why))

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        if self._queue is not None:
            self._queue.measure()
        if overdue := [opaque for opaque, entry in self._waiting.items() if entry.deadline <= now]:
            self._give_up(overdue)
        if self._waiting and not self.closed:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)

    def _give_up(self, overdue: Sequence[int]) -> None:
        """Ends requests whose time is up, except for what it is too early to give up; maybe the connection, too."""
        queue, why = self._queue, ""
        assert queue is not None  # noqa: S101 - there are no requests before it is connected
        for opaque in overdue:
            entry = self._waiting.get(opaque)
            if entry is None:  # who was told of another one has closed the connection
                continue
            taken, moving = queue.has_taken(entry.end), queue.is_moving
            if entry.code in _SENDS and self._wait_on(entry, taken=taken, moving=moving):
                continue
            del self._waiting[opaque]
            if not taken and entry.code in _SENDS:
                # Its sender looks what is stored and sends it again: what is left of it must not arrive after that.
                why = "it no longer reads from the connection"
            elif self._last_heard < entry.sent and (taken or not moving):
                # Nothing at all came since: half open or hung. A new connection finds out which.
                why = why or "it stopped responding"
            self._deliver(entry.on_answer, RequestTimeout(self.address, entry.code, entry.seconds))
        if why and not self.closed:
            self._broken(why)

    def _wait_on(self, entry: _Waiting, *, taken: bool, moving: bool) -> bool:
        """Whether a send that is overdue is still waited for.

        Over a slow line it may take longer than its time until the peer has it. It can't be given up alone, for it
        would arrive behind its own repetition; and if the connection were dropped each time, a long message would
        never get through. So its time begins again once it is there.
        """
        now = self._loop.time()
        if self._queue is None or self._queue.has_tls:  # what TLS holds back cannot be seen: no line looks slow
            return False
        if not taken and moving:
            entry.late, entry.deadline = True, now
            return True
        if taken and entry.late:
            entry.late, entry.sent, entry.deadline = False, now, now + entry.seconds
            return True
        return False
