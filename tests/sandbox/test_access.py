"""Clusters with access control refuse strangers; clusters with TLS refuse plain text and foreign clients."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest

from replicator.client.security import Credentials
from replicator.errors import SandboxError
from replicator.extras import install_command
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from replicator.sandbox import Broker, Cluster, ClusterSpec, probe, tls
from tests.support.clusters import ClusterPool


@pytest.mark.side_by_side("guarded")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ClusterSpec(name="east", version="4.9.7", acl="1.0"), "accessKey"),
        (ClusterSpec(name="east", version="5.1.4", acl="1.0"), "accessKey"),
        (ClusterSpec(name="west", version="5.5.0", acl="2.0"), "username"),
    ],
    ids=["1.0", "1.0 of 5.x", "2.0"],
)
async def test_access_control_refuses_strangers(spec: ClusterSpec, words: str, clusters: ClusterPool) -> None:
    await check_access(await clusters.get(spec), words)


async def check_access(cluster: Cluster, words: str) -> None:
    """Strangers are refused, the administrator is not."""
    [broker] = cluster.brokers
    assert (cluster.access_key, cluster.secret_key) == ("sandboxadmin", "sandboxsecret")
    answer = await ask(broker, cluster, None)
    assert answer.code != 0
    assert words.lower() in answer.remark.lower()
    answer = await ask(broker, cluster, Credentials(cluster.access_key, cluster.secret_key))
    assert answer.code == 0
    assert b"brokerName=" in answer.body


async def ask(broker: Broker, cluster: Cluster, credentials: Credentials | None) -> Frame:
    context = cluster.tls_files.context() if cluster.spec.tls else None
    address = ("127.0.0.1", broker.port)
    answer = await probe.ask(address, Request.GET_BROKER_CONFIG, tls=context, credentials=credentials)
    assert answer is not None
    return answer


async def test_tls_refuses_plain_text_and_foreign_clients(clusters: ClusterPool) -> None:
    """Any client may talk to the one, only those with a certificate of its authority to the other."""
    anyone = clusters.fresh(ClusterSpec(name="tls", version="5.3.3", tls=True, acl="2.0"))
    known = clusters.fresh(ClusterSpec(name="both", version="4.9.7", tls=True, tls_client_auth=True))
    async with anyone, known:
        await check_access(anyone, "username")
        for cluster in (anyone, known):
            for port in (cluster.nameserver.port, cluster.brokers[0].port, cluster.brokers[0].vip_port):
                assert await answered(port, tls=cluster.tls_files.context())
                assert not await answered(port, tls=None)
        assert await answered(anyone.brokers[0].port, tls=stranger(anyone.ca_file))
        assert not await answered(known.brokers[0].port, tls=stranger(known.ca_file))
        foreign = stranger(known.ca_file)
        foreign.load_cert_chain(str(anyone.client_cert_file), str(anyone.client_key_file))
        assert not await answered(known.brokers[0].port, tls=foreign)


def stranger(ca: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca))


async def answered(port: int, *, tls: ssl.SSLContext | None) -> bool:
    for code in (Request.GET_BROKER_CONFIG, Request.GET_BROKER_CLUSTER_INFO):  # whichever of the two the peer knows
        if await probe.ask(("127.0.0.1", port), code, tls=tls, seconds=1.5):
            return True
    return False


def test_certificates_name_both_loopback_addresses(tmp_path: Path) -> None:
    from cryptography import x509

    made = tls.make(tmp_path, client_auth=False)
    certificate = x509.load_pem_x509_certificate(made.server_cert.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == {"127.0.0.1", "127.0.0.2", "localhost"}
    assert made.server_key.stat().st_mode & 0o077 == 0


def test_a_missing_trustme_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(SandboxError, match="trustme") as caught:
        tls.make(tmp_path, client_auth=False)
    assert caught.value.hint == install_command("sandbox")
