"""The VIP channel: listen port - 2 while it can be reached, the listen port otherwise, and it is said once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from replicator.client import endpoint as endpoint_module
from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.client.vip import VipChannel, vip_address
from replicator.errors import Unreachable
from tests.client.peer import Peer, unused_port
from tests.support.worker import until


@pytest.fixture(autouse=True)
def _quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_BACKOFF_FIRST", 0.01)


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
        self.channel = VipChannel(self.endpoint, Security(), self.reasons.append)

    async def served_by(self) -> str:
        before = len(self.vip.requests), len(self.listen.requests)
        await self.channel.invoke(310, {}, timeout=10)
        after = len(self.vip.requests), len(self.listen.requests)
        return {(1, 0): "vip", (0, 1): "listen"}[after[0] - before[0], after[1] - before[1]]

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


async def test_after_a_reconnect_the_vip_port_is_tried_again() -> None:
    """While the listen connection lives it stays there; a second fall is said again."""
    async with broker(vip=False) as each:
        assert await each.served_by() == "listen"
        await each.vip.__aenter__()
        assert await each.served_by() == "listen"
        await each.lose_connections()
        assert await each.served_by() == "vip"
        assert len(each.reasons) == 1
        await each.vip.stop()
        await until(lambda: each.channel.live is None)
        assert await each.served_by() == "listen"
        assert len(each.reasons) == 2


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
