"""Sends: what counts as stored, and what brokers refuse to accounts that may not."""

from __future__ import annotations

import pytest

from replicator.client.cluster import Cluster as Client
from replicator.client.endpoint import Endpoint
from replicator.client.security import Credentials, Security
from replicator.client.send import Stored, send_batch, send_single
from replicator.client.topics import TopicConfig, read_topics, write_topic
from replicator.errors import BrokerRefused, ProtocolError, ReplicatorError
from replicator.sandbox import Cluster, ClusterSpec
from tests.client.peer import Peer
from tests.support.clusters import ClusterPool
from tests.support.traffic import send
from tests.support.worker import until


async def answered(code: int, fields: dict[str, str], *, single: bool) -> Stored:
    peer = Peer(lambda session, request: session.answer(request, code, remark="said", fields=fields))
    async with peer:
        endpoint = Endpoint(peer.address, Security())
        try:
            if single:
                return await send_single(endpoint, {}, b"x")
            return await send_batch(endpoint, {}, [b"x", b"y"])
        finally:
            await endpoint.close()
            assert [request.code for request in peer.requests] == [310 if single else 320]
            assert peer.requests[0].body == (b"x" if single else b"xy")


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("code", [0, 10, 11, 12])
async def test_a_late_flush_or_slave_is_stored_too(code: int, single: bool) -> None:
    """The broker only warns."""
    assert await answered(code, {"queueOffset": "7"}, single=single) == Stored(code, 7)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("code", [1, 2, 13, 14, 16, 17])
async def test_other_codes_are_refusals(code: int, single: bool) -> None:
    """With request, code and remark."""
    with pytest.raises(BrokerRefused, match="said") as caught:
        await answered(code, {}, single=single)
    assert (caught.value.request, caught.value.code) == (310 if single else 320, code)


async def test_stored_without_an_offset_is_a_protocol_error() -> None:
    """Nothing may be made up."""
    with pytest.raises(ProtocolError, match="queueOffset"):
        await answered(0, {}, single=False)


def client_of(cluster: Cluster, credentials: Credentials | None) -> Client:
    return Client([cluster.namesrv], security=Security(credentials))


@pytest.mark.side_by_side("guarded")
@pytest.mark.parametrize(
    ("name", "version", "acl"), [("east", "4.9.7", "1.0"), ("east", "5.3.3", "2.0"), ("west", "5.5.0", "2.0")]
)
async def test_access_control_of_real_brokers(clusters: ClusterPool, name: str, version: str, acl: str) -> None:
    """The right key works for all requests; a wrong one and none are refused, with the broker's reason."""
    cluster = await clusters.get(ClusterSpec(name=name, version=version, acl=acl))
    good = client_of(cluster, Credentials(cluster.access_key, cluster.secret_key))
    await good.refresh()
    await write_topic(good.writer(f"{name}-a"), TopicConfig(name="signed", read_queues=1, write_queues=1))
    assert (await send(good, f"{name}-a", "signed", 0, [(b"one", {"KEYS": "ü"}), (b"two", {})])).offset == 0
    assert "signed" in (await read_topics(good.master(f"{name}-a"))).topics
    await good.close()
    for credentials in (
        Credentials(cluster.access_key, "not the secret"),
        Credentials("nobody12", cluster.secret_key),
        None,
    ):
        stranger = client_of(cluster, credentials)
        stranger._brokers.update(good.brokers())
        for refused in (
            lambda c=stranger: send(c, f"{name}-a", "signed", 0, [(b"x", {})]),
            lambda c=stranger: read_topics(c.master(f"{name}-a")),
        ):
            with pytest.raises(BrokerRefused) as caught:
                await refused()
            assert caught.value.remark
            assert cluster.secret_key not in str(caught.value)
        await stranger.close()


async def test_batches_of_real_brokers_land_side_by_side(clusters: ClusterPool) -> None:
    """The answer's offset is that of the first message."""
    cluster = await clusters.get(ClusterSpec(name="east", version="5.3.3"))
    client = client_of(cluster, None)
    await client.refresh()
    await write_topic(client.writer("east-a"), TopicConfig(name="batches", read_queues=1, write_queues=1))

    async def sent() -> Stored | None:
        try:
            return await send(client, "east-a", "batches", 0, [(b"x", {})] * 3)
        except ReplicatorError:
            return None

    first = await until(sent)
    assert (await send(client, "east-a", "batches", 0, [(b"x", {})])).offset == first.offset + 3
    await client.close()
