"""A TCP proxy on this machine that makes faults: delay, silence, resets, refusals, lost answers.

Bytes are relayed in order and whole, whatever the fault: a stalled link loses nothing, like a network that
drops packets under TCP. Only answers that a test asked to lose are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias, cast

from tests.support.frames import Cutter, Frame, Swallow, read_frame
from tests.support.pipe import CLOSE, EOF, RESET, Line, Pipe, reset
from tests.support.sockets import ports_of

Address: TypeAlias = tuple[str, int]

VIP_OFFSET = 2


class FaultProxy:
    """Listens on `listen`, relays to `upstream`. With `frames` it cuts the stream into remoting frames."""

    def __init__(
        self,
        listen: Address,
        upstream: Address,
        *,
        delay: float = 0.0,
        frames: bool = False,
        on_frame: Callable[[Frame], None] | None = None,
        max_buffer: int = 32 << 20,
    ) -> None:
        self.listen = listen
        self.upstream = upstream
        self.delay = delay
        self.line_up, self.line_down = Line(), Line()
        self.frames = frames or on_frame is not None
        self.on_frame = on_frame
        self.max_buffer = max_buffer
        self.swallows: list[Swallow] = []
        self.accepted = 0
        self.refused = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self.stalled_up = False
        self.stalled_down = False
        self._refusing = False
        self._cut: int | None = None
        self._links: set[_Link] = set()
        self._dials: set[asyncio.Task[None]] = set()
        self._clear = asyncio.Event()
        self._clear.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Side(_Link(self), up=True), *self.listen)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.listen = (host, port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all connections, and nothing listens any more, as when a process dies."""
        assert self._server is not None
        self._server.close()
        for dial in self._dials:
            dial.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        self.reset()
        await self.idle()

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._links)

    def stall(self, *, up: bool = True, down: bool = True) -> None:
        """Nothing passes any more, in one or both directions; connections stay open, new ones hang."""
        self.stalled_up |= up
        self.stalled_down |= down
        self._clear.clear()
        self._adjust()

    def resume(self) -> None:
        """Ends a stall; what was held back arrives now."""
        self.stalled_up = self.stalled_down = False
        self._clear.set()
        self._adjust()

    def reset(self) -> None:
        """Ends all open connections with RST, on both sides."""
        for link in list(self._links):
            link.abort()

    def refuse(self) -> None:
        """From now on new connections are reset at once; open ones go on."""
        self._refusing = True

    def accept(self) -> None:
        """Ends `refuse`."""
        self._refusing = False

    def cut(self, pid: int) -> None:
        """For process `pid` alone nothing passes any more, as if a network had split."""
        self._cut = pid
        self._adjust()

    def restore(self) -> None:
        """Ends `cut`; what was held back arrives now, but for connections that the process has ended meanwhile.

        A reset that came while nothing was read is seen only behind what was sent before it, which is lost with it.
        """
        alive = set() if self._cut is None else ports_of(self._cut)
        for link in list(self._links):
            if link.cut and link.client_port not in alive:
                link.up.discard()
                link.abort()
        self._cut = None
        self._adjust()

    def drop_answers(self, matches: Callable[[Frame], bool], *, times: int = 1) -> Swallow:
        """Lets requests that match reach the broker, but not the next `times` answers come back."""
        if not self.frames:
            raise ValueError("a proxy made without frames=True cannot tell answers apart")
        swallow = Swallow(matches, times)
        self.swallows.append(swallow)
        return swallow

    def admit(self, link: _Link) -> bool:
        if self._refusing:
            self.refused += 1
            return False
        self.accepted += 1
        self._links.add(link)
        if self._cut is not None:
            self._adjust()
        self._idle.clear()
        dial = asyncio.get_running_loop().create_task(self._dial(link))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)
        return True

    def forget(self, link: _Link) -> None:
        self._links.discard(link)
        if not self._links:
            self._idle.set()

    async def idle(self) -> None:
        """Returns when no connection is open."""
        await self._idle.wait()

    def _adjust(self) -> None:
        cut = set() if self._cut is None else ports_of(self._cut)
        for link in list(self._links):
            # A socket that its process has ended is nobody's any more, and is cut off all the same.
            theirs = link.cut = link.client_port in cut or (link.cut and self._cut is not None)
            link.up.stalled, link.down.stalled = self.stalled_up or theirs, self.stalled_down or theirs
            link.up.drain()
            link.down.drain()

    async def _dial(self, link: _Link) -> None:
        await self._clear.wait()
        try:
            await asyncio.get_running_loop().create_connection(lambda: _Side(link, up=False), *self.upstream)
        except OSError:
            link.abort()


class _Link:
    """One client connection and its connection to the broker."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.up = Pipe(proxy, proxy.line_up, self._end, stalled=proxy.stalled_up)
        self.down = Pipe(proxy, proxy.line_down, self._end, stalled=proxy.stalled_down)
        self.awaited: dict[int, Swallow] = {}
        self.client_port = 0
        self.cut = False
        if proxy.frames:
            self.up.cutter = Cutter(self._request)
            self.down.cutter = Cutter(self._answer)
        self._open = 0
        self._aborted = False

    def join(self, transport: asyncio.Transport, *, up: bool) -> None:
        self._open += 1
        if up:
            self.client_port = transport.get_extra_info("peername")[1]
        if up and not self.proxy.admit(self):
            reset(transport)
            return
        mine, others = (self.up, self.down) if up else (self.down, self.up)
        mine.source = others.sink = transport
        if self._aborted:
            reset(transport)
        mine.drain()
        others.drain()

    def leave(self, *, up: bool, error: BaseException | None) -> None:
        self._open -= 1
        mine, others = (self.up, self.down) if up else (self.down, self.up)
        mine.source = others.sink = None
        others.discard()
        if error and self.cut:
            mine.discard()  # packets that a split network has not delivered are lost with their connection
        mine.enqueue(RESET if error else CLOSE)
        if not self._open:
            self.proxy.forget(self)

    def abort(self) -> None:
        self._aborted = True
        for transport in (self.up.source, self.down.source):
            if transport is not None:
                reset(transport)

    def _end(self) -> None:
        # A transport that was ended in both directions is still open until someone closes it.
        if self.up.ended and self.down.ended:
            for transport in (self.up.source, self.down.source):
                if transport is not None:
                    transport.close()

    def _request(self, data: bytes) -> bool:
        frame = read_frame(data, up=True)
        if self.proxy.on_frame is not None:
            self.proxy.on_frame(frame)
        if not frame.answer:
            for swallow in self.proxy.swallows:
                if swallow.left and swallow.matches(frame):
                    swallow.left -= 1
                    self.awaited[frame.opaque] = swallow
                    break
        return True

    def _answer(self, data: bytes) -> bool:
        frame = read_frame(data, up=False)
        if self.proxy.on_frame is not None:
            self.proxy.on_frame(frame)
        swallow = self.awaited.pop(frame.opaque, None) if frame.answer else None
        if swallow is None:
            return True
        swallow.take(frame)
        return False


class _Side(asyncio.Protocol):
    """One end of a link as the event loop sees it; `up` marks the client's end, whose bytes go up."""

    def __init__(self, link: _Link, *, up: bool) -> None:
        self._link = link
        self._up = up
        self._mine, self._others = (link.up, link.down) if up else (link.down, link.up)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._link.join(cast("asyncio.Transport", transport), up=self._up)

    def data_received(self, data: bytes) -> None:
        if self._up:
            self._link.proxy.bytes_up += len(data)
        else:
            self._link.proxy.bytes_down += len(data)
        self._mine.push(data)

    def eof_received(self) -> bool:
        self._mine.read_out = True
        self._mine.enqueue(EOF)
        return True

    def pause_writing(self) -> None:
        self._others.blocked = True

    def resume_writing(self) -> None:
        self._others.blocked = False
        self._others.drain()

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.leave(up=self._up, error=exc)


class BrokerProxies:
    """Two proxies in front of one broker that is bound to `upstream_host` but registered as `broker`.

    `main` stands before the listen port, `vip` before the port two below it.
    """

    def __init__(
        self,
        broker: Address,
        *,
        upstream_host: str = "127.0.0.1",
        delay: float = 0.0,
        frames: bool = False,
        on_frame: Callable[[str, Frame], None] | None = None,
    ) -> None:
        host, port = broker

        def proxy(name: str, at: int) -> FaultProxy:
            hook = None if on_frame is None else lambda frame: on_frame(name, frame)
            return FaultProxy((host, at), (upstream_host, at), delay=delay, frames=frames, on_frame=hook)

        self.main = proxy("main", port)
        self.vip = proxy("vip", port - VIP_OFFSET)
        self._stack = contextlib.AsyncExitStack()

    def become(self, *, delay: float, rate: float, buffer: int) -> None:
        """From now on each port is behind such a line, in front of which `buffer` bytes wait."""
        for proxy in self.both:
            proxy.delay, proxy.max_buffer = delay, buffer
            proxy.line_up.rate = proxy.line_down.rate = rate

    def cut(self, pid: int) -> None:
        """For process `pid` alone the broker is out of reach."""
        for proxy in self.both:
            proxy.cut(pid)

    def restore(self) -> None:
        """Ends `cut`."""
        for proxy in self.both:
            proxy.restore()

    @property
    def both(self) -> tuple[FaultProxy, FaultProxy]:
        return self.main, self.vip

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            for proxy in self.both:
                await stack.enter_async_context(proxy)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
