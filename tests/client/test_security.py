"""TLS fails closed, with a reason that says what to do; secrets are not shown."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import trustme
import uvloop

from replicator.client import endpoint as endpoint_module
from replicator.client.cluster import Cluster as Client
from replicator.client.endpoint import Endpoint
from replicator.client.security import Credentials, Security, tls_context
from replicator.errors import ClientError, ConfigError, Unreachable
from replicator.protocol.codes import Request
from replicator.sandbox import ClusterSpec
from tests.client.peer import Peer
from tests.support.clusters import ClusterPool


class Authority:
    """A CA with certificates for a server on loopback and for clients, as PEM files."""

    def __init__(self, directory: Path, *, host: str = "127.0.0.1") -> None:
        directory.mkdir()
        self.ca = trustme.CA()
        self.ca_file, self.cert_file, self.key_file = (directory / name for name in ("ca", "cert", "key"))
        self.ca.cert_pem.write_to_path(str(self.ca_file))
        client = self.ca.issue_cert("client.example")
        client.cert_chain_pems[0].write_to_path(str(self.cert_file))
        client.private_key_pem.write_to_path(str(self.key_file))
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(host).configure_cert(self.server)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "CONNECT_TIMEOUT", 1.0)


def context(
    mode: Literal["off", "required", "verify"], authority: Authority | None = None, *, own: Authority | None = None
) -> ssl.SSLContext | None:
    return tls_context(
        mode,
        ca_file=authority.ca_file if authority else None,
        cert_file=own.cert_file if own else None,
        key_file=own.key_file if own else None,
    )


async def ask(peer: Peer, tls: ssl.SSLContext | None, *, address: str = "") -> int:
    endpoint = Endpoint(address or peer.address, Security(tls=tls))
    try:
        return (await endpoint.invoke(1, {}, timeout=2)).code
    finally:
        await endpoint.close()


async def refused(peer: Peer, tls: ssl.SSLContext | None, *, address: str = "") -> str:
    with pytest.raises(ClientError) as caught:
        await ask(peer, tls, address=address)
    assert peer.requests == [], "nothing may have reached the peer"
    return str(caught.value)


async def test_verify_takes_a_peer_of_a_known_authority(authority: Authority) -> None:
    """Which names the host that was asked for."""
    async with Peer(tls=authority.server) as peer:
        assert await ask(peer, context("verify", authority)) == 0


async def test_required_takes_any_certificate_and_encrypts(authority: Authority) -> None:
    """It says so in its name: the peer is not verified."""
    async with Peer(tls=authority.server) as peer:
        assert await ask(peer, context("required")) == 0
        assert peer.sessions[0].transport.get_extra_info("ssl_object") is not None


async def test_an_unknown_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    """Another CA, or the system's."""
    other = Authority(tmp_path / "theirs")
    async with Peer(tls=authority.server) as peer:
        assert "certificate is not trusted: unable to get local issuer" in await refused(
            peer, context("verify", other)
        )
        assert "certificate is not trusted" in await refused(peer, context("verify"))


async def test_a_wrong_host_name_is_refused(tmp_path: Path) -> None:
    """The certificate is good, but for somebody else; the reason names the host."""
    elsewhere = Authority(tmp_path / "ours", host="broker.example")
    async with Peer(tls=elsewhere.server) as peer:
        assert "127.0.0.1" in await refused(peer, context("verify", elsewhere))
        assert "'localhost'" in await refused(peer, context("verify", elsewhere), address=f"localhost:{peer.port}")


@pytest.mark.parametrize("mode", ["required", "verify"])
async def test_a_plaintext_peer_is_refused(authority: Authority, mode: Literal["required", "verify"]) -> None:
    """No mode falls back to plaintext, whether the peer is silent or answers something."""
    async with Peer() as peer:
        peer.on_connect = lambda session: session.send(b"plain text")
        assert "TLS handshake failed" in await refused(peer, context(mode, authority))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_answers_of_any_length_come_whole(
    authority: Authority, make_loop: Callable[[], asyncio.AbstractEventLoop], secure: bool
) -> None:
    """Shorter and longer than what is read at once, on both event loops, with TLS and without."""
    sizes = [0, 1, 1000, 262_000, 262_144, 300_000, 5_000_000, 17, 1_000_000]

    async def run() -> None:
        async with Peer(
            lambda session, request: session.answer(request, body=bytes([request.code]) * sizes[request.code]),
            tls=authority.server if secure else None,
        ) as peer:
            endpoint = Endpoint(peer.address, Security(tls=context("verify", authority) if secure else None))
            try:
                asked = (endpoint.invoke(code, {}, timeout=60) for code in range(len(sizes)))
                answers = await asyncio.gather(*asked)
                assert [answer.body for answer in answers] == [bytes([i]) * size for i, size in enumerate(sizes)]
            finally:
                await endpoint.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(run())


async def test_plaintext_to_a_tls_peer_is_an_error(authority: Authority) -> None:
    """Nobody can take one for the other."""
    async with Peer(tls=authority.server) as peer:
        assert "cannot be reached" in await refused(peer, None)


async def test_an_old_protocol_version_is_refused(authority: Authority) -> None:
    """TLS 1.2 is the least."""
    made = context("verify", authority)
    assert made is not None
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    assert made.check_hostname
    assert made.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_mutual_tls(authority: Authority, tmp_path: Path, version: ssl.TLSVersion) -> None:
    """Our certificate opens the door; none, or one of another authority, does not."""
    other = Authority(tmp_path / "theirs")
    authority.server.verify_mode = ssl.CERT_REQUIRED
    authority.server.maximum_version = version
    authority.ca.configure_trust(authority.server)
    async with Peer(tls=authority.server) as peer:
        for own in (None, other):
            reason = await refused(peer, context("verify", authority, own=own))
            assert "client certificate" in reason or "alert" in reason, reason
        assert await ask(peer, context("verify", authority, own=authority)) == 0


def test_off_is_no_context() -> None:
    """Plaintext."""
    assert context("off") is None


@pytest.mark.parametrize("content", [None, b"", b"no PEM", b"\xff\xfe"])
def test_a_ca_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None) -> None:
    """With the way out."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"tls.ca_file = .*ca.pem") as caught:
        tls_context("verify", ca_file=path, cert_file=None, key_file=None)
    assert "PEM" in caught.value.hint


def test_a_certificate_that_does_not_fit_its_key_is_named(authority: Authority, tmp_path: Path) -> None:
    """Both files; missing ones too."""
    other = Authority(tmp_path / "theirs")
    for key in (other.key_file, tmp_path / "missing"):
        with pytest.raises(ConfigError, match=r"tls.cert_file = .* with tls.key_file = "):
            tls_context("verify", ca_file=None, cert_file=authority.cert_file, key_file=key)


def test_an_encrypted_key_is_refused_without_asking_anybody(tmp_path: Path, authority: Authority) -> None:
    """A service has no terminal to ask for a pass phrase."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(authority.key_file.read_bytes(), None)
    locked = tmp_path / "locked"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"pass phrase"),
        )
    )
    with pytest.raises(ConfigError) as caught:
        tls_context("verify", ca_file=None, cert_file=authority.cert_file, key_file=locked)
    assert "unencrypted key" in caught.value.hint


def test_the_secret_is_not_shown() -> None:
    """Neither by itself nor within what holds it."""
    credentials = Credentials("account", "canary-7f3a")
    assert "account" in repr(credentials)
    for shown in (repr(credentials), str(credentials), f"{Security(credentials)!r}"):
        assert "canary-7f3a" not in shown


async def test_real_brokers_with_tls(clusters: ClusterPool) -> None:
    """With the right authority and certificate all ports serve; without, all are refused with a reason."""
    spec = ClusterSpec(name="mutual", version="5.3.3", tls=True, tls_client_auth=True)
    async with clusters.fresh(spec) as cluster:
        files = cluster.tls_files
        good = tls_context("verify", ca_file=files.ca, cert_file=files.client_cert, key_file=files.client_key)
        client = Client([cluster.namesrv], security=Security(tls=good))
        fallen: list[str] = []
        client._on_fallback = lambda _broker, reason: fallen.append(reason)
        await client.refresh()
        (name,) = client.brokers()
        for endpoint in (client.master(name), client.writer(name)):
            assert (await endpoint.ask(Request.GET_BROKER_CONFIG, {})).body
        assert fallen == []
        await client.close()
        for bad in (None, tls_context("verify", ca_file=files.ca, cert_file=None, key_file=None)):
            stranger = Client([cluster.namesrv], security=Security(tls=bad))
            with pytest.raises(Unreachable):
                await stranger.refresh()
            await stranger.close()
