"""The demo's traffic: a producer at the source, a consumer at the target."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from replicator.demo.child import Child
from replicator.demo.orders import TOPIC, order
from replicator.demo.programs import Programs

__all__ = ["Traffic"]

#: Orders per second: enough for some load, few enough to read some of them.
_PER_SECOND: Final = 200
_TICK_SECONDS: Final = 0.05
_KEPT: Final = 20
_END_SECONDS: Final = 20.0


class Traffic:
    """`produced` counts orders that the source acknowledged, `refused` others, `seen` distinct consumed ones."""

    def __init__(self, programs: Programs, *, source: str, target: str) -> None:
        self._programs = programs
        self._source = source
        self._target = target
        self._seen: dict[int, bytearray] = {}
        self._producer: Child | None = None
        self._consumer: Child | None = None
        self._stopping = False
        self.produced = 0
        self.refused = 0
        self.seen = 0
        self.latest: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    @asynccontextmanager
    async def started(self, directory: Path) -> AsyncIterator[Traffic]:
        """Both programs, ready."""
        consumer = ("--group", "demo-readers", "--topic", TOPIC, "--property", "shop")
        async with AsyncExitStack() as stack:
            for program, namesrv, more in (
                ("consumer", self._target, consumer),
                ("producer", self._source, ("--group", "demo-shops")),
            ):
                child = self._programs.child(program, "--namesrv", namesrv, *more, directory=directory)
                await stack.enter_async_context(child)
                await child.read()  # its first line says that it is ready
                setattr(self, f"_{program}", child)
            yield self

    async def produce(self, stop: asyncio.Event) -> None:
        """Sends orders until `stop`; returns when all of them are answered and the program has ended."""
        producer = self._producer
        assert producer is not None  # noqa: S101 - `started` comes first
        begin, sent = time.monotonic(), 0
        while not stop.is_set():
            # As many as are due now, but no burst after a pause of the machine.
            due = min(int((time.monotonic() - begin) * _PER_SECOND) - sent, _PER_SECOND)
            for number in range(sent + 1, sent + due + 1):
                producer.write(order(number))
            for _ in range(due):
                accepted = "error" not in await producer.read()
                self.produced += accepted
                self.refused += not accepted
            sent += due
            await asyncio.sleep(_TICK_SECONDS)
        producer.close_input()
        await producer.ended(seconds=_END_SECONDS)

    async def consume(self) -> None:
        """Reads the consumer's output, until `stop_consuming`."""
        consumer = self._consumer
        assert consumer is not None  # noqa: S101 - `started` comes first
        while line := await consumer.read_line():
            received = json.loads(line)
            self.latest.append(received)
            self.seen += self._is_new(received["queue"], received["offset"])
        code = await consumer.ended(seconds=_END_SECONDS)
        if not self._stopping:
            raise consumer.failure(f"the consumer ended with code {code}")

    async def all_seen(self, count: int, *, idle_seconds: float) -> None:
        """Waits until the consumer has received `count` orders, or none for `idle_seconds`."""
        before, changed_at = self.seen, time.monotonic()
        while self.seen < count and time.monotonic() - changed_at < idle_seconds:
            await asyncio.sleep(_TICK_SECONDS)
            if self.seen != before:
                before, changed_at = self.seen, time.monotonic()

    async def stop_consuming(self) -> None:
        """Ends the consumer, which commits its offsets."""
        assert self._consumer is not None  # noqa: S101 - `started` comes first
        self._stopping = True
        self._consumer.close_input()
        await self._consumer.ended(seconds=_END_SECONDS)

    def _is_new(self, queue: int, offset: int) -> bool:
        # A group may receive a message twice, whether or not the copy is correct.
        marks = self._seen.setdefault(queue, bytearray())
        if len(marks) <= offset:
            marks.extend(bytes(offset + 1024 - len(marks)))
        is_new = not marks[offset]
        marks[offset] = 1
        return is_new
