"""One connection: every request ends exactly once, whatever the peer does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from replicator.client import connection as module
from replicator.client.connection import Answer, Connection
from replicator.client.security import Credentials
from replicator.errors import ClientError, RequestTimeout, Unreachable
from replicator.protocol.frame import Frame
from replicator.protocol.signing import sign
from tests.client.peer import Peer, Session, connected, deafen, frame, silent
from tests.support.worker import until


@pytest.fixture(autouse=True)
def _quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SWEEP", 0.01)


async def outcomes(*waiting: asyncio.Task[Frame]) -> list[Frame | BaseException]:
    async with asyncio.timeout(10):
        return await asyncio.gather(*waiting, return_exceptions=True)


def start(connection: Connection, code: int, *, timeout: float = 10.0) -> asyncio.Task[Frame]:
    return asyncio.create_task(connection.invoke(code, {}, timeout=timeout))


async def test_answers_find_their_requests_in_any_order() -> None:
    """The peer answers the last one first."""
    kept: list[Frame] = []

    def reversed_answers(session: Session, request: Frame) -> None:
        kept.append(request)
        if len(kept) == 3:
            for each in reversed(kept):
                session.answer(each, 100 + each.code)

    async with Peer(reversed_answers) as peer, connected(peer) as connection:
        answers = await outcomes(*(start(connection, code) for code in (1, 2, 3)))
        assert [answer.code for answer in answers if isinstance(answer, Frame)] == [101, 102, 103]


def receive(connection: Connection, data: bytes) -> None:
    """As if one read had brought `data`."""
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


async def test_what_answers_lead_to_goes_out_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three answers in one read, each of which leads to a request; also when one of them ends in an error."""
    async with Peer(silent) as peer, connected(peer) as connection:
        written: list[int] = []
        monkeypatch.setattr(connection._transport, "writelines", lambda pieces: written.append(len(pieces)))

        def ask_on(_: Answer) -> None:
            connection.request(2, {}, lambda _: None, timeout=10)

        def break_off(answer: Answer) -> None:
            if isinstance(answer, Frame):
                raise RuntimeError

        for on_answer in (ask_on, ask_on, ask_on, ask_on, break_off):
            connection.request(1, {}, on_answer, timeout=10)
        assert written == [1] * 5
        receive(connection, b"".join(frame(0, opaque, flag=1) for opaque in (1, 2, 3)))
        assert written[5:] == [3]
        receive(connection, frame(0, 4, flag=1) + frame(0, 5, flag=1))
        assert written[6:] == [1]
        connection.request(2, {}, ask_on, timeout=10)
        assert written[7:] == [1]


async def test_who_fails_on_an_answer_is_told_that_nothing_comes() -> None:
    """Once: what waits behind it must end. Nobody else notices, and nobody is told of an error twice."""
    told: list[Answer] = []

    def fail(answer: Answer) -> None:
        told.append(answer)
        raise RuntimeError

    async with Peer(lambda s, request: s.answer(request) if request.code < 3 else None) as peer:
        async with connected(peer) as connection:
            with capture_logs() as logs:
                connection.request(1, {}, fail, timeout=10)
                assert (await connection.invoke(2, {}, timeout=10)).code == 0
                assert [type(answer) for answer in told] == [Frame, ClientError]
                others = [start(connection, code, timeout=0.1) for code in (3, 4)]
                connection.request(5, {}, fail, timeout=0.1)
                others += [start(connection, code, timeout=0.1) for code in (6, 7)]
                await outcomes(*others)
                assert [type(answer) for answer in told[2:]] == [RequestTimeout]
        connection.request(8, {}, fail, timeout=10)
        await until(lambda: len(told) == 4)
    assert [each["log_level"] for each in logs].count("error") == 3


async def test_a_request_carries_its_fields_and_body() -> None:
    """The pieces of the body as one."""
    async with Peer() as peer, connected(peer) as connection:
        await connection.invoke(320, {"a": "b"}, body=(b"on", b"e"), timeout=10)
        (request,) = peer.requests
        assert (request.code, request.fields, request.body) == (320, {"a": "b"}, b"one")


async def test_an_account_signs_every_request() -> None:
    """Over its fields and its body; without an account nothing is signed."""
    async with Peer() as peer:
        async with connected(peer, Credentials("me", "secret")) as connection:
            await connection.invoke(1, {"a": "b"}, body=(b"body",), timeout=10)
        async with connected(peer) as connection:
            await connection.invoke(1, {"a": "b"}, timeout=10)
        signed, plain = peer.requests
        assert signed.fields == sign({"a": "b"}, (b"body",), access_key="me", secret_key="secret")
        assert plain.fields == {"a": "b"}


async def test_an_answer_that_is_late_is_dropped() -> None:
    """Its request has ended with a time-out; the next one does not get it."""
    late: list[Frame] = []

    def handler(session: Session, request: Frame) -> None:
        if request.code == 1:
            late.append(request)
        elif request.code == 2:
            session.answer(request)
        else:
            session.answer(late[0], 111)
            session.answer(request, 133)

    async with Peer(handler) as peer, connected(peer) as connection:
        first = start(connection, 1, timeout=0.1)
        await connection.invoke(2, {}, timeout=10)
        (error,) = await outcomes(first)
        assert isinstance(error, RequestTimeout)
        assert (error.address, error.code) == (peer.address, 1)
        assert error.seconds == pytest.approx(0.1)
        assert (await connection.invoke(3, {}, timeout=10)).code == 133
        assert not connection.closed


async def test_half_open_silence_ends_the_connection() -> None:
    """Nothing at all came since an overdue request was sent: all who wait are told."""
    async with Peer(silent) as peer, connected(peer) as connection:
        errors = await outcomes(start(connection, 1, timeout=0.1), start(connection, 2, timeout=60))
        assert isinstance(errors[0], RequestTimeout)
        assert isinstance(errors[1], Unreachable)
        assert "stopped responding" in errors[1].reason
        assert connection.closed
        await until(lambda: peer.sessions[0].lost)


async def test_silence_from_the_first_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Event loops may have the same time for the connection and its first request."""
    loop = asyncio.get_running_loop()
    moment = loop.time()
    async with Peer(silent) as peer:
        with monkeypatch.context() as frozen:
            frozen.setattr(loop, "time", lambda: moment)
            scope = connected(peer)
            connection = await scope.__aenter__()
            waiting = start(connection, 1, timeout=0.1)
            await asyncio.sleep(0)
        await outcomes(waiting)
        assert connection.closed
        await scope.__aexit__(None, None, None)


async def test_a_peers_requests_are_refused_and_its_news_ignored() -> None:
    """40, 39 and others get code 3; one-way commands get nothing; the connection lives on."""

    def handler(session: Session, request: Frame) -> None:
        session.send(frame(40, 77, flag=2) + frame(39, 78) + frame(40, 79))
        session.answer(request)

    async with Peer(handler) as peer, connected(peer) as connection:
        await connection.invoke(1, {}, timeout=10)
        await until(lambda: len(peer.sessions[0].answers) == 2)
        assert [(answer.code, answer.opaque) for answer in peer.sessions[0].answers] == [(3, 78), (3, 79)]
        assert (await connection.invoke(1, {}, timeout=10)).code == 0


async def test_a_peers_requests_pile_up_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks without end, and reads nothing."""
    async with Peer(silent) as peer, connected(peer) as connection:
        written: list[int] = []
        monkeypatch.setattr(connection._transport, "writelines", lambda pieces: written.append(len(pieces)))
        for pause in (connection.pause_writing, connection.resume_writing):
            pause()
            receive(connection, frame(39, 78) * 3)
        assert written == [3]


async def test_an_answer_to_no_request_is_ignored() -> None:
    """As are the ones to requests that were answered already."""

    def handler(session: Session, request: Frame) -> None:
        session.send(frame(0, 123456, flag=1))
        session.answer(request)
        session.answer(request, 5)

    async with Peer(handler) as peer, connected(peer) as connection:
        assert [(await connection.invoke(1, {}, timeout=10)).code for _ in range(3)] == [0, 0, 0]
        told: list[Answer] = []
        connection.request(1, {}, told.append, timeout=10)
        await connection.invoke(2, {}, timeout=10)
        assert [answer.code for answer in told if isinstance(answer, Frame)] == [0]
        assert len(told) == 1


async def test_all_who_wait_are_told_when_the_peer_closes() -> None:
    """In the middle of their requests; later requests too, and none is called before `request` returns."""

    def handler(session: Session, request: Frame) -> None:
        if request.code == 3:
            session.transport.abort()

    async with Peer(handler) as peer, connected(peer) as connection:
        errors = await outcomes(*(start(connection, code) for code in (1, 2, 3)))
        assert [type(error) for error in errors] == [Unreachable] * 3
        assert connection.closed
        told: list[Answer] = []
        connection.request(4, {}, told.append, timeout=10)
        assert told == []
        await until(lambda: told)
        assert isinstance(told[0], Unreachable)
        assert told[0].address == peer.address


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x08\x00\x00\x00\x04null",
        b"\x00\x00\x00\x10\x00\x00\x00\x20" + bytes(12),
        b"\xff" * 64,
    ],
)
async def test_garbage_ends_the_connection_and_names_the_protocol(garbage: bytes) -> None:
    """All who wait are told why."""
    async with Peer(lambda session, _: session.send(garbage)) as peer, connected(peer) as connection:
        errors = await outcomes(start(connection, 1), start(connection, 2))
        assert all(isinstance(error, Unreachable) for error in errors)
        assert "does not speak the RocketMQ remoting protocol" in str(errors[0])
        assert connection.closed
        await until(lambda: peer.sessions[0].lost)


async def test_closing_tells_all_who_wait() -> None:
    """And says that it was us."""
    async with Peer(silent) as peer, connected(peer) as connection:
        waiting = start(connection, 1)
        await until(lambda: peer.requests)
        connection.close()
        (error,) = await outcomes(waiting)
        assert isinstance(error, Unreachable)
        assert error.reason == "closed by us"


async def test_a_cancelled_waiter_leaves_the_connection_alone() -> None:
    """Its answer is dropped; others get theirs."""
    held: list[Callable[[], None]] = []

    def handler(session: Session, request: Frame) -> None:
        if request.code == 1:
            held.append(lambda: session.answer(request))
        else:
            session.answer(request)

    async with Peer(handler) as peer, connected(peer) as connection:
        waiting = start(connection, 1)
        await until(lambda: held)
        waiting.cancel()
        await outcomes(waiting)
        held[0]()
        assert (await connection.invoke(2, {}, timeout=10)).code == 0
        assert not connection.closed


async def test_writers_wait_while_the_peer_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is not written into memory without end; all goes out when the peer reads on."""
    monkeypatch.setattr(module, "_HIGH_WATER", 256 * 1024)
    body = (b"x" * 1024 * 1024,)
    async with Peer(on_connect=deafen) as peer, connected(peer) as connection:
        sent: list[asyncio.Task[Frame]] = []
        while connection._writable.is_set():
            sent.append(asyncio.create_task(connection.invoke(1, {}, body=body, timeout=30)))
            await asyncio.sleep(0)
        written = len(connection._waiting)
        more = [asyncio.create_task(connection.invoke(2, {}, body=body, timeout=30)) for _ in range(20)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(connection._waiting) <= written + 1
        peer.sessions[0].transport.resume_reading()
        answers = await outcomes(*sent, *more)
        assert all(isinstance(answer, Frame) for answer in answers)
        assert sum(request.code == 2 for request in peer.requests) == 20


async def test_writers_that_wait_are_told_when_the_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not wait for a peer that is gone."""
    monkeypatch.setattr(module, "_HIGH_WATER", 1024)
    async with Peer(on_connect=deafen) as peer, connected(peer) as connection:
        sent = [asyncio.create_task(connection.invoke(1, {}, body=(bytes(16 * 1024 * 1024),), timeout=30))]
        await until(lambda: not connection._writable.is_set())
        sent.append(start(connection, 2))
        await asyncio.sleep(0)
        peer.sessions[0].transport.abort()
        assert [type(error) for error in await outcomes(*sent)] == [Unreachable] * 2
