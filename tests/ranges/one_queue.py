"""A cluster whose only broker has one queue, without a network, for unit tests of what reads its ranges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from replicator.client.connection import Answer
from replicator.client.line_window import LineWindow
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from tests.support.stored import stored

__all__ = ["OneQueue"]


class OneQueue:
    """Has the messages [low, high), stored at 700 ms and one later each; it holds pulls at `high` for `hold`
    seconds, and answers others after `delay`.

    Args:
        properties: those of the message at an offset.
    """

    address = "b:1"

    def __init__(
        self,
        low: int,
        high: int,
        *,
        properties: Callable[[int], bytes] = lambda _: b"",
        hold: float = 0.05,
        delay: float = 0.0,
    ) -> None:
        self.low = low
        self.high = high
        self.hold = hold
        self.delay = delay
        self.is_slave = False
        self._properties = properties
        self.line = LineWindow(lambda: 0.0)

    @asynccontextmanager
    async def connected(self, **_: object) -> AsyncIterator[OneQueue]:
        yield self

    def reader(self, _broker: str) -> OneQueue:
        return self

    def master(self, _broker: str) -> OneQueue:
        return self

    async def connection(self) -> OneQueue:
        return self

    def is_master(self, _broker: str, _address: str) -> bool:
        return not self.is_slave

    def slave(self, _broker: str) -> None:
        return None

    async def refresh(self) -> None:
        """Its name server knows nothing new."""

    def request(self, _code: int, fields: Mapping[str, str], on_answer: Callable[[Answer], None], **_: Any) -> None:
        waits = fields["suspendTimeoutMillis"] != "0" and int(fields["queueOffset"]) == self.high
        later = asyncio.get_running_loop().call_later
        later(self.hold if waits else self.delay, lambda: on_answer(self._answer(fields)))

    async def invoke(self, _code: int, fields: Mapping[str, str], **_: Any) -> Frame:
        return self._answer(fields)

    async def ask(self, code: int, fields: Mapping[str, str]) -> Frame:
        offset = self.high if code == Request.GET_MAX_OFFSET else self.low
        return Frame(0, 1, 1, "", {"offset": str(offset)}, b"")

    def _answer(self, fields: Mapping[str, str]) -> Frame:
        at, most = int(fields["queueOffset"]), int(fields["maxMsgNums"])
        if at < self.low or at > self.high:
            return self._say(Response.PULL_OFFSET_MOVED, self.low if at < self.low else self.high)
        found = range(at, min(self.high, at + most, at + 32))
        body = b"".join(stored(offset, time=700 + offset, properties=self._properties(offset)) for offset in found)
        return self._say(Response.SUCCESS if found else Response.PULL_NOT_FOUND, at + len(found), body)

    def _say(self, code: int, next_offset: int, body: bytes = b"") -> Frame:
        ends = {"nextBeginOffset": next_offset, "minOffset": self.low, "maxOffset": self.high}
        return Frame(code, 1, 1, "", {name: str(value) for name, value in ends.items()}, body)
