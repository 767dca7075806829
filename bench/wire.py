"""A delay proxy for TCP connections: bytes that arrive at one end leave at the other after a fixed time.

It does not limit bandwidth. Bytes stay in the kernel (splice), so that it takes little of the cores on which both
clusters and the contender run.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import resource
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

import uvloop

Address: TypeAlias = tuple[str, int]

#: Bytes that one pipe may hold; the most that an unprivileged user may set.
_PIPE: Final = 1 << 20
#: Maximum of used pipes per direction: some hundred megabytes if all are full.
_MOST: Final = 400
#: Bytes that arrive within this time (seconds) leave together, none of them early.
_TOGETHER: Final = 0.0005


class _Pipe:
    """Bytes that leave together: `size` bytes at loop time `due`."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(self.into, fcntl.F_SETPIPE_SZ, _PIPE)
        self.size = 0
        self.due = 0.0

    def close(self) -> None:
        os.close(self.out)
        os.close(self.into)


class _Direction:
    """From `source` to `sink`; `on_end` is called when the source has ended and all bytes have left."""

    def __init__(
        self, source: socket.socket, sink: socket.socket, delay: float, on_end: Callable[[], None]
    ) -> None:
        self._source = source
        self._sink = sink
        self._delay = delay
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._full: deque[_Pipe] = deque()
        self._free: list[_Pipe] = []
        self._ended = False
        self._reading = False
        self._writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._read_on()

    def _read_on(self) -> None:
        if not self._reading and not self._ended and len(self._full) < _MOST:
            self._reading = True
            self._loop.add_reader(self._source.fileno(), self._readable)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._source.fileno())

    def _readable(self) -> None:
        now = self._loop.time()
        last = self._full[-1] if self._full else None
        try:
            if last is None or now + self._delay > last.due or not self._fill(last):
                fresh = self._free.pop() if self._free else _Pipe()
                fresh.due = now + self._delay + _TOGETHER
                self._full.append(fresh)
                self._fill(fresh)
        except ConnectionError:
            self._ended = True
        if self._ended or len(self._full) >= _MOST:
            self._pause()
        if self._timer is None and not self._writing:
            self._timer = self._loop.call_at(self._full[0].due, self._leave)

    def _fill(self, pipe: _Pipe) -> bool:
        """Reads bytes that have arrived; False if `pipe` is full."""
        try:
            size = os.splice(self._source.fileno(), pipe.into, _PIPE, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
        except BlockingIOError:
            return False
        pipe.size += size
        self._ended = size == 0
        return True

    def _leave(self) -> None:
        """Writes the bytes that are due."""
        self._timer = None
        now = self._loop.time()
        try:
            while self._full and self._full[0].due <= now:
                if not self._empty(self._full[0]):
                    self._writing = True
                    self._loop.add_writer(self._sink.fileno(), self._writable)
                    return
                self._free.append(self._full.popleft())
        except ConnectionError:
            self._on_end()
            return
        self._read_on()
        if self._full:
            self._timer = self._loop.call_at(self._full[0].due, self._leave)
        elif self._ended:
            self._on_end()

    def _empty(self, pipe: _Pipe) -> bool:
        """Writes the bytes of `pipe`; False if the sink accepts no more now."""
        while pipe.size:
            try:
                pipe.size -= os.splice(
                    pipe.out, self._sink.fileno(), pipe.size, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE
                )
            except BlockingIOError:
                return False
        return True

    def _writable(self) -> None:
        self._loop.remove_writer(self._sink.fileno())
        self._writing = False
        self._leave()

    def close(self) -> None:
        """Drops bytes that have not left yet."""
        self._pause()
        self._ended = True
        if self._writing:
            self._loop.remove_writer(self._sink.fileno())
        if self._timer is not None:
            self._timer.cancel()
        for pipe in (*self._full, *self._free):
            pipe.close()
        self._full.clear()
        self._free.clear()


class _Wire:
    """One connection, until one of its directions has ended."""

    def __init__(self, near: socket.socket, far: socket.socket, delay: float) -> None:
        self._sockets = near, far
        self._closed = False
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._directions = [
            _Direction(near, far, delay, self.close),
            _Direction(far, near, delay, self.close),
        ]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for direction in self._directions:
                direction.close()
            for each in self._sockets:
                each.close()


async def serve(pairs: Sequence[tuple[Address, Address]], *, delay: float) -> None:
    """Relays for each (listen, upstream) pair until SIGTERM or SIGINT; `delay` is one way, in seconds."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        accepting = [
            asyncio.create_task(_accept(stack.enter_context(socket.create_server(listen)), upstream, delay))
            for listen, upstream in pairs
        ]
        print("ready", flush=True)
        await stop.wait()
        for task in accepting:
            task.cancel()


async def _accept(server: socket.socket, upstream: Address, delay: float) -> None:
    loop = asyncio.get_running_loop()
    server.setblocking(False)
    while True:
        near, _ = await loop.sock_accept(server)
        far = socket.socket()
        far.setblocking(False)
        try:
            await loop.sock_connect(far, upstream)
        except OSError:
            near.close()
            far.close()
        else:
            _Wire(near, far, delay)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description="Relay TCP with a delay.")
    parser.add_argument("--listen", type=_address, action="append", required=True, metavar="HOST:PORT")
    parser.add_argument("--upstream", type=_address, action="append", required=True, metavar="HOST:PORT")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="one way, so half of the round trip")
    options = parser.parse_args()
    if len(options.listen) != len(options.upstream):
        parser.error("as many --upstream as --listen are needed")
    uvloop.run(serve(list(zip(options.listen, options.upstream, strict=True)), delay=options.delay_ms / 1000))


if __name__ == "__main__":
    main()
