"""The VIP channel: listen port - 2 while it can be reached, the listen port otherwise, and it is said once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from replicator.client import endpoint as endpoint_module
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.client.vip import VipChannel, vip_address
from replicator.errors import Unreachable
from tests.client.peer import Peer, hang_up, unused_port
from tests.support.worker import until


@pytest.fixture(autouse=True)
def _quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_BACKOFF_FIRST", 0.01)


async def greet(connection: Connection) -> None:
    """Nobody is asked who it is, but somebody must answer."""
    await connection.invoke(26, {}, timeout=10)


@dataclass
class Broker:
    """A broker's two ports, each open or not."""

    listen: Peer
    vip: Peer
    reasons: list[str] = field(default_factory=list)
    channel: VipChannel = field(init=False)
    endpoint: Endpoint = field(init=False)

    def __post_init__(self) -> None:
        self.endpoint = Endpoint(self.listen.address, Security())
        self.channel = VipChannel(
            self.endpoint, vip_address(self.endpoint.address), Security(), self.reasons.append, identify=greet
        )

    async def served_by(self) -> str:
        before = self._sends()
        await self.channel.invoke(310, {}, timeout=10)
        after = self._sends()
        return {(1, 0): "vip", (0, 1): "listen"}[after[0] - before[0], after[1] - before[1]]

    async def sent_over(self, port: str) -> bool:
        return await self.served_by() == port

    def _sends(self) -> tuple[int, int]:
        vip, listen = ([each.code for each in peer.requests].count(310) for peer in (self.vip, self.listen))
        return vip, listen

    async def lose_connections(self) -> None:
        for session in (*self.listen.sessions, *self.vip.sessions):
            session.transport.abort()
        await until(lambda: self.channel.live is None and self.endpoint.live is None)


@asynccontextmanager
async def broker(*, vip: bool = True, listen: bool = True) -> AsyncIterator[Broker]:
    port = unused_port()
    made = Broker(Peer(port=port), Peer(port=port - 2))
    try:
        if vip:
            await made.vip.__aenter__()
        if listen:
            await made.listen.__aenter__()
        yield made
    finally:
        await made.channel.close()
        await made.endpoint.close()
        await made.vip.stop()
        await made.listen.stop()


@pytest.mark.parametrize(
    ("address", "vip"), [("127.0.0.1:10911", "127.0.0.1:10909"), ("[::1]:10911", "[::1]:10909"), ("a.b:3", "a.b:1")]
)
def test_its_port_is_two_below(address: str, vip: str) -> None:
    """On the same host, IPv6 too."""
    assert vip_address(address) == vip


@pytest.mark.parametrize("address", [":10911", "h:0", "h:99999", "h", "", ":1", "None"])
def test_an_address_that_is_none(address: str) -> None:
    """Brokers may give their name servers anything, as an empty `brokerIP1`: that broker cannot be reached."""
    with pytest.raises(Unreachable, match="is not host:port"):
        vip_address(address)


async def test_it_serves_while_it_can_be_reached() -> None:
    """The listen port sees nothing, and nothing is said."""
    async with broker() as each:
        assert [await each.served_by() for _ in range(3)] == ["vip"] * 3
        assert each.listen.sessions == []
        assert each.reasons == []
        assert each.channel.live is not None


async def test_the_listen_port_serves_instead_and_it_is_said_once() -> None:
    """With the reason; even when many find out at once."""
    async with broker(vip=False) as each:
        await asyncio.gather(*(each.channel.invoke(310, {}, timeout=10) for _ in range(20)))
        assert await each.served_by() == "listen"
        (reason,) = each.reasons
        assert vip_address(each.listen.address) in reason
        assert each.channel.live is each.endpoint.live
        assert len(each.listen.sessions) == 1


async def test_it_goes_back_once_the_vip_port_answers() -> None:
    """While the listen connection lives and serves; a second fall is said again."""
    async with broker(vip=False) as each:
        assert await each.served_by() == "listen"
        await each.vip.__aenter__()
        await until(lambda: each.sent_over("vip"))
        assert each.channel.live is not each.endpoint.live
        assert len(each.listen.sessions) == len(each.reasons) == 1
        await each.vip.stop()
        await until(lambda: each.channel.live is None)
        assert await each.served_by() == "listen"
        assert len(each.reasons) == 2


async def test_a_port_that_drops_connections_is_tried_without_harm() -> None:
    """As behind a forwarder of ports: nothing is sent there before it has answered."""
    async with broker() as each:
        each.vip.on_connect = hang_up
        await each.channel.ask(310, {})
        tried = len(each.vip.sessions)
        while len(each.vip.sessions) < tried + 3:
            assert await each.served_by() == "listen"
            await asyncio.sleep(0.01)
        each.vip.on_connect = None
        await until(lambda: each.sent_over("vip"))
        assert len(each.reasons) == 1


async def test_a_broker_that_comes_back_is_sent_to_over_the_vip_port() -> None:
    """Though that one was refused a moment before both ports were there again."""
    loop = asyncio.get_running_loop()
    async with broker(vip=False, listen=False) as each:
        with pytest.raises(Unreachable):
            await each.channel.invoke(310, {}, timeout=10)
        each.endpoint._not_before = loop.time() + 0.5
        sending = asyncio.create_task(each.served_by())
        await until(lambda: each.endpoint._attempt is not None)
        await each.vip.__aenter__()
        await each.listen.__aenter__()
        assert await sending == "vip"
        assert each.reasons == []


async def test_a_connection_that_served_ends_the_count_of_failures() -> None:
    """Or the pauses after the next loss would begin with the longest."""
    async with broker(vip=False, listen=False) as each:
        for _ in range(5):
            with pytest.raises(Unreachable):
                await each.channel.invoke(310, {}, timeout=10)
        await each.vip.__aenter__()
        assert await each.served_by() == "vip"
        await each.vip.stop()
        await until(lambda: each.channel.live is None)
        with pytest.raises(Unreachable):
            await each.channel.invoke(310, {}, timeout=10)
        assert each.channel._backoff.attempts == 1


async def test_a_reconnect_that_falls_again_is_no_new_fall() -> None:
    """It was never back on the VIP port."""
    async with broker(vip=False) as each:
        assert await each.served_by() == "listen"
        await each.lose_connections()
        assert await each.served_by() == "listen"
        assert len(each.reasons) == 1


async def test_a_broker_that_is_away_is_unreachable_and_no_fall() -> None:
    """Neither port answers: there is nothing to fall back to."""
    async with broker(vip=False, listen=False) as each:
        with pytest.raises(Unreachable) as caught:
            await each.channel.invoke(310, {}, timeout=10)
        assert each.listen.address in str(caught.value)
        assert each.reasons == []
        await each.vip.__aenter__()
        assert await each.served_by() == "vip"


async def test_what_is_dropped_is_what_serves() -> None:
    """While the listen port does, too: what was sent there is not delivered any more."""
    async with broker(vip=False) as each:
        assert await each.served_by() == "listen"
        each.channel.drop()
        assert each.endpoint.live is None
        await each.vip.__aenter__()
        assert await each.served_by() == "vip"
        await each.endpoint.connection()
        each.channel.drop()
        assert each.channel.live is None
        assert each.endpoint.live is not None
