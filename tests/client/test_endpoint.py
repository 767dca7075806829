"""Endpoints connect when needed, knock gently at doors that stay shut, and say why they failed."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import Any

import pytest

from replicator.client import endpoint as module
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.errors import BrokerRefused, ClientError, Unreachable
from replicator.protocol.frame import Frame
from tests.client.peer import Peer, Session, hang_up, silent, unused_port
from tests.support.worker import until


@pytest.fixture
async def attempts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When connections were attempted."""
    loop = asyncio.get_running_loop()
    connect = loop.create_connection
    seen: list[float] = []

    async def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(loop.time())
        return await connect(*args, **kwargs)

    monkeypatch.setattr(loop, "create_connection", counted)
    return seen


def dead() -> Endpoint:
    return Endpoint(f"127.0.0.1:{unused_port()}", Security())


async def failing(endpoint: Endpoint) -> ClientError:
    try:
        await endpoint.invoke(1, {}, timeout=10)
    except ClientError as error:
        return error
    raise AssertionError("it was answered")


def assert_spaced(attempts: list[float], first: float, most: float) -> None:
    for number, (one, other) in enumerate(itertools.pairwise(attempts)):
        assert other - one >= 0.5 * min(most, first * 2**number) - 0.001


async def test_one_connection_serves_all() -> None:
    """However many ask at once; it is made when first needed."""
    async with Peer() as peer:
        endpoint = Endpoint(peer.address, Security())
        assert endpoint.live is None
        assert len(peer.sessions) == 0
        await asyncio.gather(*(endpoint.invoke(1, {}) for _ in range(20)))
        assert len(peer.sessions) == 1
        assert endpoint.live is not None
        await endpoint.close()
        assert endpoint.live is None


async def test_one_knock_at_a_time_while_many_wait(attempts: list[float]) -> None:
    """They all fail together, with its reason."""
    endpoint = dead()
    errors = await asyncio.gather(*(failing(endpoint) for _ in range(50)))
    assert len(attempts) == 1
    assert all(isinstance(error, Unreachable) and "refused" in error.reason for error in errors)
    await asyncio.gather(*(failing(endpoint) for _ in range(50)))
    assert len(attempts) == 2


async def test_attempts_are_spaced_ever_wider(attempts: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the most, with jitter, however eager the callers are."""
    monkeypatch.setattr(module, "_BACKOFF_FIRST", 0.04)
    monkeypatch.setattr(module, "_BACKOFF_MOST", 0.1)
    endpoint = dead()
    for _ in range(6):
        await failing(endpoint)
    assert len(attempts) == 6
    assert_spaced(attempts, 0.04, 0.1)


async def test_a_peer_that_takes_connections_and_drops_them_is_knocked_at_gently(
    attempts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection on which nothing came counts as a failure too."""
    monkeypatch.setattr(module, "_BACKOFF_FIRST", 0.04)
    monkeypatch.setattr(module, "_BACKOFF_MOST", 0.1)
    async with Peer(on_connect=hang_up) as peer:
        endpoint = Endpoint(peer.address, Security())
        for _ in range(6):
            await failing(endpoint)
        assert_spaced(attempts, 0.04, 0.1)
        peer.on_connect = None
        assert (await endpoint.invoke(1, {})).code == 0
        await endpoint.close()


async def test_a_lost_connection_that_had_served_is_made_again_at_once(attempts: list[float]) -> None:
    """No pause after the first loss, and failures from before it do not count any more."""
    async with Peer() as peer:
        endpoint = Endpoint(peer.address, Security())
        for count in range(1, 6):
            assert (await endpoint.invoke(1, {})).code == 0
            peer.sessions[-1].transport.abort()
            await until(lambda: endpoint.live is None)
            assert len(attempts) == count
        assert attempts[-1] - attempts[0] < 4 * 0.5
        await endpoint.close()


async def test_ask_raises_what_the_peer_refuses() -> None:
    """With code and remark; `invoke` leaves the judgement to the caller."""
    async with Peer(lambda session, request: session.answer(request, 16, remark="no permission")) as peer:
        endpoint = Endpoint(peer.address, Security())
        with pytest.raises(BrokerRefused) as caught:
            await endpoint.ask(17, {})
        error = caught.value
        assert (error.address, error.request, error.code, error.remark) == (peer.address, 17, 16, "no permission")
        assert (await endpoint.invoke(17, {})).code == 16
        await endpoint.close()


async def test_closing_during_an_attempt_tells_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an error of the endpoint, not as if they had been cancelled themselves."""
    monkeypatch.setattr(module, "_BACKOFF_FIRST", 100.0)
    monkeypatch.setattr(module, "_BACKOFF_MOST", 100.0)
    endpoint = dead()
    await failing(endpoint)
    waiting = [asyncio.create_task(failing(endpoint)) for _ in range(3)]
    await until(lambda: endpoint._attempt is not None)
    await endpoint.close()
    async with asyncio.timeout(5):
        errors = await asyncio.gather(*waiting)
    assert [error.reason for error in errors if isinstance(error, Unreachable)] == ["closed by us"] * 3


async def test_a_cancelled_waiter_does_not_end_the_attempt_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share it."""
    loop = asyncio.get_running_loop()
    connect, gate = loop.create_connection, asyncio.Event()

    async def held(*args: Any, **kwargs: Any) -> Any:
        await gate.wait()
        return await connect(*args, **kwargs)

    monkeypatch.setattr(loop, "create_connection", held)
    async with Peer() as peer:
        endpoint = Endpoint(peer.address, Security())
        waiting = [asyncio.create_task(endpoint.invoke(1, {})) for _ in range(2)]
        await until(lambda: endpoint._attempt is not None)
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        assert waiting[0].cancelled()
        gate.set()
        assert (await waiting[1]).code == 0
        await endpoint.close()


async def test_a_connection_that_is_not_made_in_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and does not shake hands."""
    from replicator.client.security import tls_context

    monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.2)
    context = tls_context("required", ca_file=None, cert_file=None, key_file=None)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    endpoint = Endpoint(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", Security(tls=context))
    error = await failing(endpoint)
    assert "no connection within 0.2 s" in str(error)
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("address", ["..:9876", f"{'a' * 70}.example:9876", "host", "host:0", "a\0b:1", "null"])
async def test_an_address_that_is_none_is_unreachable(address: str) -> None:
    """They come from name servers too: whatever it is, nothing crashes."""
    error = await failing(Endpoint(address, Security()))
    assert isinstance(error, Unreachable)
    assert error.reason


async def test_a_request_of_one_does_not_hold_up_another() -> None:
    """A long poll is answered when there is something; meanwhile others are served."""
    held: list[tuple[Session, Frame]] = []

    def handler(session: Session, request: Frame) -> None:
        if request.code == 11:
            held.append((session, request))
        else:
            session.answer(request)

    async with Peer(handler) as peer:
        endpoint = Endpoint(peer.address, Security())
        poll = asyncio.create_task(endpoint.invoke(11, {}))
        await until(lambda: held)
        assert (await endpoint.invoke(1, {})).code == 0
        assert not poll.done()
        held[0][0].answer(held[0][1], 19)
        assert (await poll).code == 19
        await endpoint.close()


async def test_a_hung_peer_is_left_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time-out in silence the next request makes a new connection."""
    async with Peer(silent) as peer:
        endpoint = Endpoint(peer.address, Security())
        with pytest.raises(ClientError, match="did not answer"):
            await endpoint.invoke(1, {}, timeout=0.1)
        peer.handler = Session.answer
        assert (await endpoint.invoke(1, {})).code == 0
        assert len(peer.sessions) == 2
        await endpoint.close()


async def test_who_looks_at_many_is_not_kept_by_a_pause() -> None:
    """The reason of the last failure comes at once; an attempt is due when the pause is over."""
    endpoint = dead()
    endpoint.refuse_pause()
    error = await failing(endpoint)
    with pytest.raises(Unreachable) as refused:
        endpoint.refuse_pause()
    assert str(refused.value) == str(error)
    await until(lambda: _may_try(endpoint), seconds=5)


def _may_try(endpoint: Endpoint) -> bool:
    with suppress(Unreachable):
        endpoint.refuse_pause()
        return True
    return False
