"""A connection to a Proxy, which leaves answers out while others on the same TCP connection are not all written.

It does so without a word (`AbstractRemotingActivity.writeResponse`), once 64 KiB of earlier answers wait in its
buffer: of 64 pulls that were under way on one connection most had no answer (measured on 5.3.3 and 5.5.0).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from replicator.client.connection import Answer, Connection, OnAnswer
from replicator.client.security import Security
from replicator.errors import RequestTimeout, Unreachable

__all__ = ["ProxyConnection"]

#: TCP connections at most for requests to one broker; more requests wait. An idle queue's long poll takes one.
_MOST: Final = 256


class _Job(NamedTuple):
    code: int
    fields: Mapping[str, str]
    on_answer: OnAnswer
    body: Sequence[bytes]
    timeout: float


class ProxyConnection(Connection):
    """A connection that has but one request under way, and makes others beside it for what would have to wait.

    It ends as any, and those beside it with it. One of these that ends takes only its own request with it.

    Args:
        behind: the broker that requests are for.
        connect: makes a connection that is the same, but alone.
    """

    def __init__(
        self,
        address: str,
        security: Security,
        may_go_on: Callable[[], bool] | None = None,
        *,
        behind: str,
        connect: Callable[[], Awaitable[Connection]],
    ) -> None:
        super().__init__(address, security, may_go_on, behind=behind)
        self._connect = connect
        #: Whether a request of its own is under way.
        self._busy = False
        self._idle: list[Connection] = []
        self._beside: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._jobs: deque[_Job] = deque()

    def request(
        self,
        code: int,
        fields: Mapping[str, str],
        on_answer: OnAnswer,
        *,
        body: Sequence[bytes] = (),
        timeout: float,
    ) -> None:
        """As `Connection.request`; the time for the answer begins once nothing else is under way."""
        if self.closed:
            super().request(code, fields, on_answer, body=body, timeout=timeout)
            return
        self._jobs.append(_Job(code, fields, on_answer, body, timeout))
        self._go_on()

    def _go_on(self) -> None:
        while self._jobs and (free := self._free()) is not None:
            self._send(free, self._jobs.popleft())
        self._beside = {each for each in self._beside if not each.closed}
        room = _MOST - 1 - len(self._beside) - len(self._opening)
        for _ in range(min(room, len(self._jobs) - len(self._opening))):
            task = asyncio.create_task(self._open_another(), name=f"connect {self.address}")
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _free(self) -> Connection | None:
        if not self._busy:
            return self
        while self._idle:
            if not (connection := self._idle.pop()).closed:
                return connection
        return None

    def _send(self, connection: Connection, job: _Job) -> None:
        is_over = False

        def answered(answer: Answer) -> None:
            nonlocal is_over
            if not is_over:  # who fails on an answer is given another one
                is_over = True
                self._is_free(connection, answer)
            job.on_answer(answer)

        if connection is self:
            self._busy = True
            super().request(job.code, job.fields, answered, body=job.body, timeout=job.timeout)
        else:
            connection.request(job.code, job.fields, answered, body=job.body, timeout=job.timeout)

    def _is_free(self, connection: Connection, answer: Answer) -> None:
        if connection is self:
            self._busy = False
        elif isinstance(answer, RequestTimeout):
            connection.close()  # its answer may still be on the way, and the next one would be left out
        else:
            self._idle.append(connection)
        if not self.closed:
            self._go_on()

    async def _open_another(self) -> None:
        # Without it what waits goes over those that there are.
        with contextlib.suppress(OSError, ValueError, Unreachable):
            connection = await self._connect()
            if self.closed:
                connection.close()
                return
            self._beside.add(connection)
            self._idle.append(connection)
            self._go_on()

    def _lost(self, why: str, kind: type[Unreachable] = Unreachable) -> None:
        if self.closed:
            return
        super()._lost(why, kind)
        for task in self._opening:
            task.cancel()
        for connection in self._beside:
            connection.close()
        jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            self._loop.call_soon(self._deliver, job.on_answer, kind(self.address, why))
