"""Name servers: any that answers will do, and when none does all reasons are told."""

from __future__ import annotations

import asyncio
import math

import pytest

from replicator.client import nameservers as module
from replicator.client.nameservers import NameServers
from replicator.client.security import Security
from replicator.errors import BrokerRefused, Unreachable
from tests.client.peer import Peer, silent, unused_port
from tests.support.worker import until


def dead() -> str:
    return f"127.0.0.1:{unused_port()}"


async def test_the_second_answers_when_the_first_is_dead() -> None:
    """And it is asked first from then on."""
    async with Peer() as peer:
        servers = NameServers([dead(), peer.address], Security())
        for _ in range(3):
            address, answer = await servers.invoke(106, {})
            assert (address, answer.code) == (peer.address, 0)
        assert servers._endpoints[0]._backoff.attempts == 1
        await servers.close()


async def test_many_at_once_all_find_the_one_that_answers() -> None:
    """Their failures do not make them skip it."""
    async with Peer() as peer:
        servers = NameServers([dead(), peer.address], Security())
        answers = await asyncio.gather(*(servers.invoke(106, {}) for _ in range(5)))
        assert {address for address, _ in answers} == {peer.address}
        await servers.close()


async def test_one_that_does_not_answer_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the request and says nothing."""
    monkeypatch.setattr(module, "_TIMEOUT", 0.1)
    async with Peer(silent) as hung, Peer() as peer:
        servers = NameServers([hung.address, peer.address], Security())
        address, _ = await servers.invoke(106, {})
        assert address == peer.address
        assert len(hung.requests) == 1
        await servers.close()


async def test_it_goes_round_when_the_one_that_answered_dies() -> None:
    """Back to the first."""
    async with Peer() as first:
        second = await Peer().__aenter__()
        servers = NameServers([first.address, second.address], Security())
        servers._current = 1
        assert (await servers.invoke(106, {}))[0] == second.address
        await second.stop()
        assert (await servers.invoke(106, {}))[0] == first.address
        await servers.close()


async def test_an_error_code_is_an_answer() -> None:
    """The next one would say the same."""
    async with Peer(lambda session, request: session.answer(request, 3)) as peer, Peer() as other:
        servers = NameServers([peer.address, other.address], Security())
        assert (await servers.invoke(106, {}))[1].code == 3
        assert other.requests == []
        await servers.close()


async def test_each_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one answers says nothing of another, and why one does not is said; one that is down holds up nobody."""
    monkeypatch.setattr(module, "_TIMEOUT", 0.1)
    gone = dead()
    async with (
        Peer(lambda session, request: session.answer(request, 2, remark="busy")) as busy,
        Peer(silent) as hung,
        Peer(lambda session, request: session.answer(request, body=b"one")) as one,
        Peer(lambda session, request: session.answer(request, body=b"two")) as two,
    ):
        addresses = [two.address, busy.address, gone, hung.address, one.address]
        servers = NameServers(addresses, Security())
        for _ in range(2):
            async with asyncio.timeout(5):
                found, failures = await servers.read_each(219, {}, lambda _, answer: bytes(answer.body))
            assert [*found.items()] == [(two.address, b"two"), (one.address, b"one")]
            assert failures.keys() == {busy.address, gone, hung.address}
            assert "refused GET_KVLIST_BY_NAMESPACE (219) with SYSTEM_BUSY (2): busy" in failures[busy.address]
            assert servers._endpoints[2]._backoff.attempts == 1
            servers._endpoints[2]._not_before = math.inf
        await servers.close()


async def test_one_that_leaves_the_list_meanwhile_is_not_asked() -> None:
    """It was closed; what the address server names now is asked instead."""
    async with Peer(silent) as first, Peer() as second, Peer() as third:
        servers = NameServers([first.address, second.address], Security())
        reading = asyncio.create_task(servers.invoke(106, {}))
        await until(lambda: first.requests)
        await servers._use([third.address])
        assert (await reading)[0] == third.address
        assert second.sessions == []
        await servers.close()


async def test_one_of_them_is_told() -> None:
    """Neither the others, nor one that has left the list."""
    refusals = iter([0, 1])
    async with Peer() as other, Peer(lambda session, request: session.answer(request, next(refusals))) as peer:
        servers = NameServers([other.address, peer.address], Security())
        await servers.ask_one(peer.address, 100, {"key": "T"})
        with pytest.raises(BrokerRefused):
            await servers.ask_one(peer.address, 100, {"key": "T"})
        with pytest.raises(Unreachable, match="not among the name servers"):
            await servers.ask_one(dead(), 100, {})
        assert [dict(each.fields) for each in peer.requests] == [{"key": "T"}] * 2
        assert other.requests == []
        await servers.close()


async def test_when_all_are_dead_one_error_names_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason of each."""
    monkeypatch.setattr(module, "_TIMEOUT", 0.1)
    async with Peer(silent) as hung:
        servers = NameServers([dead(), hung.address], Security())
        with pytest.raises(Unreachable) as caught:
            await servers.invoke(106, {})
        assert all(address in str(caught.value) for address in servers.addresses)
        assert "refused" in str(caught.value)
        assert "did not answer" in str(caught.value)
        await servers.close()
