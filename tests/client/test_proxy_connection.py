"""Requests through a Proxy: each on a TCP connection where no other is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from replicator.client import proxy_connection as module
from replicator.client.connection import Answer
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.errors import RequestTimeout, Unreachable
from replicator.protocol.frame import Frame
from tests.client.peer import Peer, Session, silent
from tests.support.worker import until


class Proxy(Peer):
    """It answers what `release` was called for, and notes how many requests of a connection were under way."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.waiting: list[tuple[Session, Frame]] = []
        self.most = 0

    def _serve(self, session: Session, request: Frame) -> None:
        self.waiting.append((session, request))
        of_session = sum(each is session for each, _ in self.waiting)
        self.most = max(self.most, of_session)

    def release(self, *, least: int = 0) -> None:
        waiting, self.waiting = self.waiting[least:], self.waiting[:least]
        for session, request in waiting:
            session.answer(request, fields={"offset": str(request.fields["at"])})


@asynccontextmanager
async def endpoint(proxy: Peer) -> AsyncIterator[Endpoint]:
    made = Endpoint(proxy.address, Security(), behind="a")
    try:
        yield made
    finally:
        await made.close()


async def test_each_request_has_a_connection_to_itself() -> None:
    """Which serve again once they are free."""
    async with Proxy() as proxy, endpoint(proxy) as broker:
        for _ in range(3):
            asked = [asyncio.create_task(broker.invoke(30, {"at": str(i)})) for i in range(10)]
            await until(lambda: len(proxy.waiting) == 10)
            proxy.release()
            assert [answer.number("offset") for answer in await asyncio.gather(*asked)] == [*range(10)]
        assert proxy.most == 1
        assert len(proxy.sessions) <= 20  # some may have been opened for what was answered meanwhile
        assert {request.fields["bname"] for request in proxy.requests} == {"a"}


async def test_what_exceeds_them_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    async with Proxy() as proxy, endpoint(proxy) as broker:
        asked = [asyncio.create_task(broker.invoke(30, {"at": str(i)})) for i in range(9)]
        for _ in range(3):
            await until(lambda: len(proxy.waiting) == 3)
            proxy.release()
        await asyncio.gather(*asked)
        assert (proxy.most, len(proxy.sessions)) == (1, 3)


async def test_one_that_ends_takes_only_its_own_request_with_it() -> None:
    """While the first one lasts, which all stand or fall with."""
    async with Proxy() as proxy, endpoint(proxy) as broker:
        asked = [asyncio.create_task(broker.invoke(30, {"at": str(i)})) for i in range(3)]
        await until(lambda: len(proxy.waiting) == 3)
        first = broker.live
        lost, request = next(each for each in proxy.waiting if each[0] is not proxy.sessions[0])
        lost.transport.abort()
        with pytest.raises(Unreachable):
            await asked[int(str(request.fields["at"]))]
        proxy.waiting = [each for each in proxy.waiting if each[0] is not lost]
        proxy.release()
        assert (
            sum(not isinstance(each, Exception) for each in await asyncio.gather(*asked, return_exceptions=True))
            == 2
        )
        assert broker.live is first
        again = [asyncio.create_task(broker.invoke(30, {"at": str(i)})) for i in range(3)]
        await until(lambda: len(proxy.waiting) == 3)
        proxy.sessions[0].transport.abort()
        assert all(isinstance(each, Unreachable) for each in await asyncio.gather(*again, return_exceptions=True))
        await until(lambda: all(session.lost for session in proxy.sessions))


async def test_one_whose_answer_is_overdue_is_used_no_more() -> None:
    """What is still on its way there would have the next answer left out."""
    async with Proxy() as proxy, endpoint(proxy) as broker:
        long = asyncio.create_task(broker.invoke(30, {"at": "1"}))
        await until(lambda: len(proxy.waiting) == 1)
        with pytest.raises(RequestTimeout):
            await broker.invoke(30, {"at": "2"}, timeout=0.3)
        await until(lambda: proxy.sessions[1].lost)
        proxy.release(least=0)
        assert (await long).number("offset") == 1


async def test_a_failure_over_an_answer_ends_no_other() -> None:
    """As with any connection: who fails on it is told so."""
    async with Proxy() as proxy, endpoint(proxy) as broker:
        connection = await broker.connection()
        told: list[Answer] = []

        def fail(answer: Answer) -> None:
            told.append(answer)
            if isinstance(answer, Frame):
                raise ValueError("a bug")

        connection.request(30, {"at": "1"}, fail, timeout=5)
        await until(lambda: len(proxy.waiting) == 1)
        proxy.release()
        await until(lambda: len(told) == 2)
        asked = asyncio.create_task(broker.invoke(30, {"at": "2"}))
        await until(lambda: len(proxy.waiting) == 1)
        proxy.release()
        await asked
        assert (proxy.most, len(proxy.sessions)) == (1, 1)


async def test_nothing_is_asked_once_it_is_closed() -> None:
    async with Peer(silent) as proxy, endpoint(proxy) as broker:
        connection = await broker.connection()
        asked = [asyncio.create_task(connection.invoke(30, {}, timeout=5)) for _ in range(3)]
        await until(lambda: len(proxy.requests) >= 1)
        connection.close()
        connection.close()
        assert all(isinstance(each, Unreachable) for each in await asyncio.gather(*asked, return_exceptions=True))
        with pytest.raises(Unreachable):
            await connection.invoke(30, {}, timeout=5)
