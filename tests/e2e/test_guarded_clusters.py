"""Signed and encrypted, on real brokers that insist on it; secrets are never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from replicator.client.brokers import max_offset
from replicator.client.send import send_batch
from replicator.protocol.batch import entry, header_fields
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.guarded import access, assert_hidden
from tests.support.traffic import connected, create_topic, judge, produce
from tests.support.worker import Worker

pytestmark = pytest.mark.side_by_side("guarded")


async def _fill(cluster: Cluster, topic: str, count: int) -> None:
    await create_topic(cluster, topic, queues=1)
    entries = [entry(b"\0\0\0\1" + b"%d" % (i % 10), b"", body_crc=0, flag=i) for i in range(count)]
    fields = header_fields(group="g", topic=topic, queue_id=0, sys_flag=0, born_timestamp=1, reconsume_times=0)
    async with connected(cluster) as client:
        (broker,) = client.brokers()
        await send_batch(client.writer(broker), fields, entries)


async def _count(cluster: Cluster, topic: str) -> int:
    async with connected(cluster) as client:
        (broker,) = client.brokers()
        return await max_offset(client.master(broker), topic, 0)


ENCRYPTED = ClusterSpec(name="west", version="5.3.3", tls=True)
MUTUAL = ClusterSpec(name="mutual", version="5.5.0", tls=True, tls_client_auth=True)
CASES = [
    (ClusterSpec(name="east", version="4.9.7", acl="1.0"), ClusterSpec(name="west", version="5.5.0", acl="2.0")),
    (ClusterSpec(name="east", version="5.3.3", acl="2.0"), ENCRYPTED),
]


@pytest.mark.parametrize(("source_spec", "target_spec"), CASES, ids=["ACL 1.0 to 2.0", "ACL 2.0 to TLS"])
async def test_guarded_clusters(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_spec: ClusterSpec,
    target_spec: ClusterSpec,
) -> None:
    """With the right account and the right CA everything crosses; the secrets are nowhere to be seen."""
    source, target = await clusters.pair(source_spec, target_spec)
    topic = topic_name("t").replace("[", "-").replace("]", "-")
    await _fill(source, topic, 100)
    environment: Mapping[str, str] = access("SOURCE", source) | access("TARGET", target)
    flags = ("--topics", topic, "--log-level", "debug")
    async with Worker(source, target, tmp_path, *flags, environment=environment) as worker:
        await worker.caught_up(topic, 100)
        assert_hidden(source.secret_key, worker)
        assert await worker.drain() == 0
    assert await _count(target, topic) == 100


@pytest.mark.parametrize(
    ("source_spec", "target_spec"), [(MUTUAL, ENCRYPTED), (ENCRYPTED, MUTUAL)], ids=["there", "back"]
)
async def test_tls_on_both_sides(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_spec: ClusterSpec,
    target_spec: ClusterSpec,
) -> None:
    """One insists on our certificate, whose own is verified; the other is encrypted only, with no CA told."""
    source, target = await clusters.pair(source_spec, target_spec)
    topic = topic_name("t")
    await create_topic(source, topic, queues=2)
    await produce(source, topic, 500)
    environment: dict[str, str] = {}
    for side, cluster in (("SOURCE", source), ("TARGET", target)):
        environment |= access(side, cluster, tls="verify" if cluster.spec is MUTUAL else "required")
    async with Worker(source, target, tmp_path / "one", "--topics", topic, environment=environment) as worker:
        await worker.caught_up(topic, 500)
        assert await worker.drain() == 0
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()
    without = {name: value for name, value in environment.items() if not name.endswith(("CERT_FILE", "KEY_FILE"))}
    stranger = Worker(source, target, tmp_path / "two", "--topics", topic, environment=without)
    await stranger.start(ready=False)
    assert await stranger.wait() == 3
    assert "certificate" in stranger.log


async def test_a_wrong_secret(clusters: ClusterPool, tmp_path: Path) -> None:
    """Refused at the start, in one line without the secret."""
    source, target = await clusters.pair(*CASES[0])
    wrong = "not/the+secret of anybody"
    environment = access("SOURCE", source, secret=wrong) | access("TARGET", target)
    worker = Worker(source, target, tmp_path, "--log-level", "debug", environment=environment)
    await worker.start(ready=False)
    assert await worker.wait() == 3
    assert "source broker east-a" in worker.log
    assert "Traceback" not in worker.log
    assert_hidden(wrong, worker)


async def test_secret_files(clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]) -> None:
    """Read if only their owner can read them."""
    source, target = await clusters.pair(*CASES[0])
    topic = topic_name("t")
    await _fill(source, topic, 10)
    secret = tmp_path / "secret"
    secret.write_text(source.secret_key + "\n")
    flags = ("--topics", topic, "--source-access-key", source.access_key, "--source-secret-key-file", str(secret))
    environment = access("TARGET", target)
    await asyncio.to_thread(secret.chmod, 0o644)
    careless = Worker(source, target, tmp_path / "one", *flags, environment=environment)
    await careless.start(ready=False)
    assert await careless.wait() == 78
    assert "can be read by others: chmod 600 it" in careless.log
    await asyncio.to_thread(secret.chmod, 0o600)
    async with Worker(source, target, tmp_path / "two", *flags, environment=environment) as worker:
        await worker.caught_up(topic, 10)
