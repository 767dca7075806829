"""One direction of a proxied connection: a queue of chunks that fall due."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tests.support.frames import Cutter

_LINGER_ZERO = struct.pack("ii", 1, 0)
_PROMPT_BUFFER = 1 << 18

# Marks in the queue, told by identity: a chunk may well have the same bytes.
EOF, CLOSE, RESET = b"eof", b"close", b"reset"


class Faults(Protocol):
    """What a pipe asks its proxy: the delay of one way, and how much may wait in the pipe."""

    delay: float
    max_buffer: int


class Line:
    """One direction of a line that all connections share, with `rate` bytes a second; 0: as many as there are."""

    def __init__(self, rate: float = 0.0) -> None:
        self.rate = rate
        self._free_at = 0.0

    def leaves(self, now: float, size: int) -> float:
        """When the last of `size` bytes that come now has left."""
        if not self.rate:
            return now
        self._free_at = max(now, self._free_at) + size / self.rate
        return self._free_at


def reset(transport: asyncio.Transport) -> None:
    """Closes with RST."""
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    transport.abort()


class Pipe:
    """Chunks leave in order, each `delay` after it came, while nothing is stalled."""

    def __init__(self, faults: Faults, line: Line, on_end: Callable[[], None], *, stalled: bool) -> None:
        self.faults = faults
        self.line = line
        self.on_end = on_end
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self.cutter: Cutter | None = None
        self.queue: deque[tuple[float, bytes]] = deque()
        self.read_out = False
        self.ended = False
        self.blocked = False
        self.stalled = stalled
        self._loop = asyncio.get_running_loop()
        self._queued = 0
        self._timer: asyncio.TimerHandle | None = None

    def push(self, data: bytes) -> None:
        if self.cutter is not None:
            data = self.cutter.cut(data)
            if not data:
                return
        slow = self.faults.delay or self.line.rate
        if self.queue or self.blocked or self.stalled or slow or self.sink is None:
            self.enqueue(data)
        else:
            self.sink.write(data)

    def enqueue(self, data: bytes) -> None:
        self.queue.append((self.line.leaves(self._loop.time(), len(data)) + self.faults.delay, data))
        self._queued += len(data)
        self.drain()

    def drain(self) -> None:
        queue = self.queue
        while queue and self.sink is not None and not self.blocked and not self.stalled:
            due, data = queue[0]
            wait = due - self._loop.time()
            if wait > 0:
                if self._timer is None:
                    self._timer = self._loop.call_later(wait, self._fire)
                break
            queue.popleft()
            self._queued -= len(data)
            self._deliver(self.sink, data)
        self._throttle()

    def discard(self) -> None:
        self.queue.clear()
        self._queued = 0

    def _fire(self) -> None:
        self._timer = None
        self.drain()

    def _deliver(self, sink: asyncio.Transport, data: bytes) -> None:
        if data is EOF:
            with contextlib.suppress(OSError):  # it has been reset, which the event loop has not seen yet
                sink.write_eof()
            self.ended = True
            self.on_end()
        elif data is CLOSE:
            sink.close()
        elif data is RESET:
            reset(sink)
        else:
            sink.write(data)

    def _throttle(self) -> None:
        source = self.source
        if source is None or self.read_out or source.is_closing():
            return
        limit = self.faults.max_buffer if self.faults.delay else _PROMPT_BUFFER
        if self._queued > limit:
            if source.is_reading():
                source.pause_reading()
        elif not source.is_reading() and self._queued <= limit // 2:
            source.resume_reading()
