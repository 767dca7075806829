"""What an HTTP address server says of the name servers is used, and looked at again."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from replicator.client import address_server as under_test
from replicator.client import nameservers as module
from replicator.client.address_server import AddressServer
from replicator.client.nameservers import NameServers
from replicator.client.security import Security
from replicator.errors import Unreachable
from tests.client.peer import Peer, unused_port
from tests.client.test_security import Authority, context
from tests.support.address_server import served


@pytest.mark.parametrize(
    ("body", "named"),
    [("a:9876", ["a:9876"]), (" a:9876;b:9877; \n", ["a:9876", "b:9877"]), ("a:9876\r\nb:9876", ["a:9876"])],
)
async def test_what_it_names(body: str, named: list[str]) -> None:
    """The first line, as RocketMQ's clients read it."""
    with served(body) as server:
        assert await AddressServer(server.url, Security()).read() == named


@pytest.mark.parametrize("body", ["", "\n", "<html>", "a:9876;b", ";"])
async def test_what_names_nothing(body: str) -> None:
    """An error that shows it."""
    with served(body) as server, pytest.raises(Unreachable, match="not with host:port;host:port"):
        await AddressServer(server.url, Security()).read()


async def test_it_is_away_or_refuses() -> None:
    """The reason says that it is the address server."""
    with served("a:9876") as server:
        server.status = 503
        with pytest.raises(Unreachable, match="the address server answers with status 503"):
            await AddressServer(server.url, Security()).read()
    away = AddressServer(f"http://127.0.0.1:{unused_port()}/rocketmq/nsaddr", Security())
    with pytest.raises(Unreachable, match=r"the address server does not answer .*refused"):
        await away.read()


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "], ids=["body", "head"])
async def test_one_that_answers_bit_by_bit(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    """Its time is that of the whole answer; then nobody listens to it any more."""
    monkeypatch.setattr(under_test, "_TIMEOUT", 0.3)
    hung_up = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"1")
                await writer.drain()
                await asyncio.sleep(0.05)
        hung_up.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rocketmq/nsaddr"
    async with server, asyncio.timeout(5):
        with pytest.raises(Unreachable, match=r"does not answer \(not whole within 0.3 s\)"):
            await AddressServer(url, Security()).read()
        await hung_up.wait()


async def test_https_is_checked_with_the_clusters_ca(tmp_path: Path) -> None:
    """Or with the system's, which do not know this one."""
    authority = Authority(tmp_path / "tls")
    with served("a:9876", authority.server) as server:
        trusting = Security(tls=context("verify", authority))
        assert await AddressServer(server.url, trusting).read() == ["a:9876"]
        for tls in (None, context("required")):
            with pytest.raises(Unreachable, match="certificate verify failed"):
                await AddressServer(server.url, Security(tls=tls)).read()


async def test_name_servers_that_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked up again after a while, at once when none answers, and kept while the server is away."""
    async with Peer() as first, Peer() as second:
        with served(first.address) as server:
            servers = NameServers([server.url], Security())
            assert servers.addresses == [server.url]
            for _ in range(3):
                assert (await servers.invoke(106, {}))[0] == first.address
            assert (server.asked, servers.addresses) == (1, [first.address])
            server.body = f"{second.address};{first.address}"
            monkeypatch.setattr(servers, "_refresh_at", 0.0)
            assert (await servers.invoke(106, {}))[0] == second.address
            server.body, server.status = first.address, 500
            monkeypatch.setattr(servers, "_refresh_at", 0.0)
            assert (await servers.invoke(106, {}))[0] == second.address
            assert servers.addresses == [second.address, first.address]
            monkeypatch.setattr(module, "_REFRESH_IN_NEED", 0.0)
            monkeypatch.setattr(module, "_TIMEOUT", 0.5)
            await second.stop()
            await first.stop()
            async with Peer() as third:
                server.body, server.status = third.address, 200
                with pytest.raises(Unreachable):
                    await servers.invoke(106, {})
                assert (await servers.invoke(106, {}))[0] == third.address
            await servers.close()


async def test_many_ask_it_once() -> None:
    """Also before anything is known; while it is away each is told."""
    async with Peer() as peer:
        with served(peer.address) as server:
            servers = NameServers([server.url], Security())
            await asyncio.gather(*(servers.invoke(106, {}) for _ in range(5)))
            assert server.asked == 1
            await servers.close()
    away = NameServers([server.url], Security())
    said = await asyncio.gather(*(away.invoke(106, {}) for _ in range(2)), return_exceptions=True)
    assert ["the address server does not answer" in str(each) for each in said] == [True, True]
