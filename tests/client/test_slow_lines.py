"""Connections whose peer takes what is sent slowly, or not at all any more, though it has answered just before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from replicator.client import connection as module
from replicator.client import send_queue as send_queue_module
from replicator.client import writer as writer_module
from replicator.client.connection import Connection
from replicator.errors import RequestTimeout, Unreachable
from replicator.protocol.frame import Frame
from tests.client.peer import Peer, Session, connected, deafen
from tests.support.worker import until

#: With asyncio's writing, and with our own.
WRITERS = pytest.mark.parametrize("may_go_on", [None, lambda: True], ids=["transport", "own"])

MayGoOn = Callable[[], bool] | None

#: More than the kernels on both sides take at once.
LONG = (bytes(8 * 1024 * 1024),)


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SWEEP", 0.01)
    monkeypatch.setattr(module, "_HIGH_WATER", 256 * 1024)
    monkeypatch.setattr(writer_module, "_HIGH_WATER", 256 * 1024)


class Deaf:
    """Takes the first request, reads no further, and may answer the first one when a test wants it to."""

    def __init__(self) -> None:
        self.first: tuple[Session, Frame] | None = None

    def handler(self, session: Session, request: Frame) -> None:
        if self.first is None:
            self.first = session, request
            deafen(session)
        else:
            session.answer(request)

    def answer(self) -> None:
        assert self.first is not None
        self.first[0].answer(self.first[1])

    def hear(self) -> None:
        assert self.first is not None
        self.first[0].transport.resume_reading()


def read_slowly(session: Session) -> None:
    """A quarter of a MiB at most, and then nothing for a while; without end."""
    deafen(session)
    session.pause = 0.05
    session.transport.resume_reading()


async def fill(connection: Connection) -> list[asyncio.Task[Frame]]:
    """Requests until others have to wait, for a while."""
    sent: list[asyncio.Task[Frame]] = []
    while connection._writable.is_set():
        sent.append(asyncio.create_task(connection.invoke(1, {}, body=LONG, timeout=30)))
        await asyncio.sleep(0.05)
    return sent


@WRITERS
async def test_who_waits_to_write_does_not_wait_for_ever(may_go_on: MayGoOn) -> None:
    """The peer answers after the last request was written, and then it is gone: only those who wait notice."""
    deaf = Deaf()
    async with asyncio.timeout(20), Peer(deaf.handler) as peer, connected(peer, may_go_on=may_go_on) as connection:
        early = asyncio.create_task(connection.invoke(1, {}, timeout=30))
        await until(lambda: deaf.first)
        sent = await fill(connection)
        deaf.answer()
        assert (await early).code == 0
        while not connection.closed:  # at first kernels may still take some of it
            with pytest.raises(RequestTimeout):
                await connection.invoke(2, {}, timeout=0.2)
        errors = await asyncio.gather(*sent, return_exceptions=True)
        assert {type(error) for error in errors} == {Unreachable}
        assert "no longer reads" in str(errors[0])


@WRITERS
async def test_a_connection_that_is_only_slow_is_not_ended(may_go_on: MayGoOn) -> None:
    """Who waits for longer than a request may last is told so, and all that was written arrives."""
    async with (
        Peer(on_connect=read_slowly) as peer,
        connected(peer, may_go_on=may_go_on) as connection,
    ):
        sent = await fill(connection)
        with pytest.raises(RequestTimeout):
            await connection.invoke(2, {}, timeout=0.3)
        assert not connection.closed
        assert {answer.code for answer in await asyncio.gather(*sent)} == {0}
        assert all(request.code == 1 for request in peer.requests)


@WRITERS
async def test_a_send_that_gets_there_slowly_is_waited_for(may_go_on: MayGoOn) -> None:
    """Its time begins once the peer has it: else a long message would never get through."""
    async with (
        Peer(on_connect=read_slowly) as peer,
        connected(peer, may_go_on=may_go_on) as connection,
    ):
        answer = await connection.invoke(320, {}, body=LONG, timeout=0.2)
        assert answer.code == 0
        assert [len(request.body) for request in peer.requests] == [len(LONG[0])]


async def test_a_question_that_waits_behind_a_slow_send_is_given_up_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was heard since, but the peer takes what is sent."""
    monkeypatch.setattr(module, "_HIGH_WATER", 4 * len(LONG[0]))
    async with (
        Peer(on_connect=read_slowly) as peer,
        connected(peer) as connection,
    ):
        send = asyncio.create_task(connection.invoke(320, {}, body=LONG, timeout=0.2))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimeout):
            await connection.invoke(30, {}, timeout=0.2)
        assert connection.is_moving
        assert (await send).code == 0
        assert not connection.is_moving


@WRITERS
async def test_a_send_that_is_given_up_does_not_arrive_later(
    may_go_on: MayGoOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the peer has answered something else after it was sent, so that the connection seems to be alive."""
    monkeypatch.setattr(send_queue_module, "_DEAD", 0.3)
    deaf = Deaf()
    async with asyncio.timeout(20), Peer(deaf.handler) as peer, connected(peer, may_go_on=may_go_on) as connection:
        early = asyncio.create_task(connection.invoke(1, {}, timeout=30))
        await until(lambda: deaf.first)
        send = asyncio.create_task(connection.invoke(320, {}, body=LONG, timeout=0.3))
        await asyncio.sleep(0.1)
        deaf.answer()
        assert (await early).code == 0
        with pytest.raises(RequestTimeout):
            await send
        assert connection.closed
        deaf.hear()
        await until(lambda: peer.sessions[0].lost)
        assert [request.code for request in peer.requests] == [1]


@WRITERS
async def test_a_send_that_nobody_waits_for_any_more_does_not_arrive_later(may_go_on: MayGoOn) -> None:
    """A queue that is restarted looks what is stored, and sends again: the first one must not come after that."""
    async with Peer(on_connect=read_slowly) as peer, connected(peer, may_go_on=may_go_on) as connection:
        sending = asyncio.create_task(connection.invoke(320, {}, body=LONG, timeout=30))
        await asyncio.sleep(0.1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert connection.closed


async def test_a_send_that_the_peer_has_is_given_up_alone() -> None:
    """Others over the same connection go on."""

    def handler(session: Session, request: Frame) -> None:
        if request.code != 320:
            session.answer(request)

    async with Peer(handler) as peer, connected(peer) as connection:
        send = asyncio.create_task(connection.invoke(320, {}, body=(b"x",), timeout=0.2))
        await until(lambda: peer.requests)
        assert (await connection.invoke(1, {}, timeout=10)).code == 0
        with pytest.raises(RequestTimeout):
            await send
        assert not connection.closed


@WRITERS
async def test_what_was_given_up_is_not_delivered_once_the_connection_is_closed(may_go_on: MayGoOn) -> None:
    """Nobody waits for it any more, but it is still on its way."""
    deaf = Deaf()
    async with asyncio.timeout(20), Peer(deaf.handler) as peer, connected(peer, may_go_on=may_go_on) as connection:
        early = asyncio.create_task(connection.invoke(1, {}, timeout=30))
        await until(lambda: deaf.first)
        # Two, so that one is in the systems' queues as a whole, and could be delivered.
        given_up = [
            asyncio.create_task(connection.invoke(15, {}, body=(bytes(700_000),), timeout=0.3)) for _ in range(2)
        ]
        await asyncio.sleep(0.1)
        deaf.answer()
        await early
        assert {type(each) for each in await asyncio.gather(*given_up, return_exceptions=True)} == {RequestTimeout}
        assert not connection.closed
        connection.close()
        await asyncio.sleep(0.1)
        deaf.hear()
        await until(lambda: peer.sessions[0].lost)
        assert [request.code for request in peer.requests] == [1]


async def test_what_waits_to_be_written_is_not_once_it_may_not_be() -> None:
    """As after a pause in which the lease has expired; what never needed it is written."""
    allowed = True
    async with Peer() as peer, connected(peer, may_go_on=lambda: allowed) as connection:
        connection.pause_writing()
        with_lease = asyncio.create_task(connection.invoke(320, {}, timeout=10))
        await asyncio.sleep(0)
        allowed = False
        connection.resume_writing()
        with pytest.raises(Unreachable, match="may not send now"):
            await with_lease
    async with Peer() as peer, connected(peer, may_go_on=lambda: allowed) as connection:
        connection.pause_writing()
        without = asyncio.create_task(connection.invoke(30, {}, timeout=10))
        await asyncio.sleep(0)
        connection.resume_writing()
        assert (await without).code == 0
