"""Requests go only to hosts that are allowed, whatever a name server says."""

from __future__ import annotations

import pytest

from replicator.client.broker_hosts import BrokerHosts
from replicator.client.cluster import Cluster
from replicator.client.nameservers import NothingKnown
from replicator.client.security import Credentials, Security
from tests.client.peer import Peer
from tests.client.test_cluster import EAST, info


@pytest.mark.parametrize(
    ("hosts", "address", "allowed"),
    [
        ([], "6.6.6.6:10911", True),
        (["10.1.0.0/16"], "10.1.255.9:10911", True),
        (["10.1.0.0/16"], "10.2.0.9:10911", False),
        (["10.1.0.0/16"], "broker-a:10911", False),
        (["10.1.0.7"], "10.1.0.7:10911", True),
        (["10.1.0.7"], "10.1.0.8:10911", False),
        (["Broker-A", "broker-b.east"], "broker-a:10911", True),
        (["broker-a"], "broker-a.evil:10911", False),
        (["broker-a"], "6.6.6.6:10911", False),
        (["fd00::/8"], "[fd00::7]:10911", True),
        (["[fd00::7]"], "[fd00::7]:10911", True),
        (["fd00::/8"], "[fe80::7]:10911", False),
    ],
)
def test_who_is_allowed(hosts: list[str], address: str, *, allowed: bool) -> None:
    assert BrokerHosts.of(hosts).allow(address) is allowed


def test_networks_are_exact() -> None:
    with pytest.raises(ValueError, match="host bits"):
        BrokerHosts.of(["10.1.0.7/16"])


async def test_an_answer_that_names_another_host_is_not_used() -> None:
    """Of any member of any broker: the next name server is asked, and who answered in its place gets nothing."""
    spoofed = info(east={**EAST, "east-b": {0: "127.0.0.1:10911", 1: "6.6.6.6:10911"}})
    right = info(east={"east-a": {0: "127.0.0.1:10911"}})
    security = Security(Credentials("user", "secret"), broker_hosts=BrokerHosts.of(["127.0.0.0/8", "h"]))
    async with (
        Peer(lambda session, request: session.answer(request, body=spoofed)) as evil,
        Peer(lambda session, request: session.answer(request, body=right)) as good,
    ):
        cluster = Cluster([evil.address, good.address], security=security)
        assert list((await cluster.refresh()).brokers) == ["east-a"]
        assert list(cluster.brokers()) == ["east-a"]
        await cluster.close()
        alone = Cluster([evil.address], security=security)
        with pytest.raises(
            NothingKnown, match=r"names broker east-b at 6\.6\.6\.6:10911, where broker_hosts"
        ) as caught:
            await alone.refresh()
        assert "find out who answers" in caught.value.hint
        await alone.close()
