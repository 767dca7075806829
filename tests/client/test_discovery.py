"""What is known of a cluster's brokers, whatever becomes of one of them while it is looked at."""

from __future__ import annotations

from typing import Any, cast

import pytest

from replicator.client import discovery as module
from replicator.client.brokers import BrokerConfig
from replicator.client.cluster import Broker, Cluster, Topology
from replicator.client.discovery import Discovery
from replicator.client.topics import TopicTable
from replicator.errors import Unreachable


class Listener:
    """Where a broker listens."""

    def __init__(self, address: str) -> None:
        self.address = address

    def refuse_pause(self) -> None: ...


class TwoBrokers:
    """A cluster of which `a` has no master any more when it is asked for; `b` is well."""

    async def refresh(self) -> Topology:
        return Topology("east", {name: Broker(name, {0: f"{name}:1"}) for name in ("a", "b")})

    def master(self, name: str) -> Listener:
        if name == "a":
            raise Unreachable(name, "the name servers know no master of it")
        return Listener(f"{name}:1")

    def is_master(self, _name: str, _address: str) -> bool:
        return True


async def test_a_master_that_goes_meanwhile_keeps_no_other_from_being_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_topics(_broker: object, *, known: Any) -> TopicTable:
        return TopicTable({}, ())

    async def read_config(_broker: object) -> BrokerConfig:
        return BrokerConfig(1)

    for fake in (read_topics, read_config):
        monkeypatch.setattr(module, fake.__name__, fake)
    discovery = Discovery(cast("Cluster", TwoBrokers()), masters_only=True)
    discovery.masters = {"a", "b"}
    await discovery.refresh()
    assert discovery.masters == {"b"}
    assert discovery.failures.keys() == {"a"}
