"""Brokers behind a SOCKS proxy are reached, and what the proxy says is told as the proxy's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from replicator.client.endpoint import Endpoint
from replicator.client.security import Security
from replicator.client.socks import SocksProxy
from replicator.errors import ConfigError, Unreachable
from replicator.ranges.access import Access
from replicator.settings import ClusterSettings
from tests.client.peer import Peer, unused_port
from tests.client.test_security import Authority, context
from tests.support.socks import PASSWORD, USER, socks_proxy
from tests.support.worker import until


async def refused(endpoint: Endpoint) -> str:
    try:
        with pytest.raises(Unreachable) as raised:
            await endpoint.invoke(1, {})
        return str(raised.value)
    finally:
        await endpoint.close()


@pytest.mark.fetched
async def test_a_broker_behind_it(tmp_path: Path) -> None:
    """By address, by name, and with TLS, whose certificate is the broker's."""
    authority = Authority(tmp_path / "tls", host="localhost")
    async with socks_proxy(tmp_path) as proxy, Peer() as plain, Peer(tls=authority.server) as encrypted:
        socks = SocksProxy(proxy.address, USER, PASSWORD)
        for host in ("127.0.0.1", "localhost"):
            endpoint = Endpoint(f"{host}:{plain.port}", Security(socks=socks))
            assert (await endpoint.invoke(1, {})).code == 0
            await endpoint.close()
        trusting = Security(tls=context("verify", authority), socks=socks)
        endpoint = Endpoint(f"localhost:{encrypted.port}", trusting)
        assert (await endpoint.invoke(1, {})).code == 0
        await endpoint.close()
        await until(lambda: f"localhost:{encrypted.port}" in proxy.log, seconds=5)
        assert f"127.0.0.1:{plain.port}" in proxy.log


@pytest.mark.fetched
async def test_why_it_is_not_reached(tmp_path: Path) -> None:
    """A wrong password, nobody behind the proxy, and no proxy."""
    async with socks_proxy(tmp_path) as proxy, Peer() as peer:
        wrong = SocksProxy(proxy.address, USER, "open barley")
        said = await refused(Endpoint(peer.address, Security(socks=wrong)))
        assert f"the SOCKS proxy {proxy.address} does not connect it" in said
        assert "barley" not in said
        right = SocksProxy(proxy.address, USER, PASSWORD)
        said = await refused(Endpoint(f"127.0.0.1:{unused_port()}", Security(socks=right)))
        assert "refused" in said
        assert proxy.address in said
    said = await refused(Endpoint("127.0.0.1:1", Security(socks=right)))
    assert f"the SOCKS proxy {proxy.address} is not reached" in said


def test_it_comes_from_the_settings(tmp_path: Path) -> None:
    """With the password from a file; a file that others can read is refused."""
    file = tmp_path / "password"
    file.touch(mode=0o600)
    file.write_text(f"{PASSWORD}\n")
    given = {"address": "gateway:1080", "username": USER, "password_file": file}
    settings = ClusterSettings.model_validate({"namesrv": "a:1", "socks": given})
    assert Access.of(settings).security().socks == SocksProxy("gateway:1080", USER, PASSWORD)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"socks.password_file = .* can be read by others"):
        Access.of(settings)
    assert Access.of(ClusterSettings.model_validate({"namesrv": "a:1"})).security().socks is None


def test_executors_get_it_whole() -> None:
    """And its password is not shown."""
    socks = SocksProxy("gateway:1080", USER, PASSWORD)
    assert pickle.loads(pickle.dumps(socks)) == socks
    assert PASSWORD not in repr(Security(socks=socks))
