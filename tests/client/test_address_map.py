"""Brokers are reached where the map says, and are still checked by what they advertise."""

from __future__ import annotations

import pytest

from replicator.client.address_map import AddressMap
from replicator.client.broker_hosts import BrokerHosts
from replicator.client.cluster import Cluster
from replicator.client.nameservers import NothingKnown
from replicator.client.security import Security
from tests.client.peer import Peer
from tests.client.test_cluster import info


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("10.0.0.5:10911", "gateway:31011"),
        ("10.0.0.5:10912", "other:10912"),
        ("10.0.0.6:10911", "10.0.0.6:10911"),
        ("[fd00::7]:10911", "[::1]:10911"),
    ],
)
def test_an_entry_with_the_port_comes_first(address: str, reached: str) -> None:
    entries = ["10.0.0.5=other", "10.0.0.5:10911=gateway:31011", "[fd00::7]=[::1]"]
    assert AddressMap.of(entries).reach(address) == reached


@pytest.mark.parametrize(
    ("entries", "listen", "vip"),
    [
        ([], "10.0.0.5:10911", "10.0.0.5:10909"),
        (["10.0.0.5=gateway"], "gateway:10911", "gateway:10909"),
        (["10.0.0.5:10911=gateway:31011"], "gateway:31011", "gateway:31009"),
        (["10.0.0.5:10911=gateway:31011", "10.0.0.5:10909=gateway:32000"], "gateway:31011", "gateway:32000"),
    ],
)
async def test_the_vip_port_is_beside_the_listen_port_unless_it_has_an_entry(
    entries: list[str], listen: str, vip: str
) -> None:
    answered = info(east={"east-a": {0: "10.0.0.5:10911"}})
    async with Peer(lambda session, request: session.answer(request, body=answered)) as nameserver:
        security = Security(broker_hosts=BrokerHosts.of(["10.0.0.0/8"]), address_map=AddressMap.of(entries))
        cluster = Cluster([nameserver.address], security=security)
        assert (await cluster.refresh()).brokers["east-a"].master == listen
        assert cluster.master("east-a").address == listen
        assert cluster.writer("east-a").address == vip
        assert cluster.is_master("east-a", listen)
        await cluster.close()
        unmapped = Security(broker_hosts=BrokerHosts.of(["gateway"]), address_map=AddressMap.of(entries))
        cluster = Cluster([nameserver.address], security=unmapped)
        with pytest.raises(NothingKnown, match=r"at 10\.0\.0\.5:10911, where broker_hosts allows none"):
            await cluster.refresh()
        await cluster.close()
