"""What is known of a cluster's brokers, whatever becomes of one of them while it is looked at."""

from __future__ import annotations

from typing import Any, cast

from replicator.client.brokers import BrokerConfig
from replicator.client.cluster import Broker, Cluster, Topology
from replicator.client.discovery import Discovery
from replicator.client.topics import TopicConfig, TopicTable
from replicator.errors import Unreachable

ORDERS = TopicConfig(name="orders", read_queues=1, write_queues=1)


class Listener:
    """Where a broker listens."""

    def __init__(self, address: str) -> None:
        self.address = address

    def refuse_pause(self) -> None: ...


class TwoBrokers:
    """A cluster of which `a` has no master any more when it is asked for; `b` is well.

    It shows one of `topics` at each look while there are any; `complete` says that there are no others.
    """

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.complete = True

    async def refresh(self) -> Topology:
        return Topology("east", {name: Broker(name, {0: f"{name}:1"}) for name in ("a", "b")})

    def master(self, name: str) -> Listener:
        if name == "a":
            raise Unreachable(name, "the name servers know no master of it")
        return Listener(f"{name}:1")

    def is_master(self, _name: str, _address: str) -> bool:
        return True

    def shows_all(self, _name: str, _address: str) -> bool:
        return self.complete

    async def read_topics(self, _broker: object, *, known: Any) -> TopicTable:
        return TopicTable({}, ()) if not self.topics else TopicTable({self.topics.pop(): ORDERS}, ())

    async def read_config(self, _broker: object) -> BrokerConfig:
        return BrokerConfig(1)


async def test_a_topic_that_is_not_shown_may_be_there() -> None:
    """As behind a Proxy, which has no route of a topic whose broker is away."""
    cluster = TwoBrokers()
    cluster.topics = ["orders"]
    discovery = Discovery(cast("Cluster", cluster), masters_only=True)
    await discovery.refresh()
    assert discovery.complete == {"b"}
    cluster.complete = False
    await discovery.refresh()
    assert discovery.masters == {"b"}
    assert discovery.complete == set()
    assert discovery.topics["b"] == {"orders": ORDERS}
    cluster.complete = True
    await discovery.refresh()
    assert discovery.topics["b"] == {}


async def test_a_master_that_goes_meanwhile_keeps_no_other_from_being_seen() -> None:
    discovery = Discovery(cast("Cluster", TwoBrokers()), masters_only=True)
    discovery.masters = {"a", "b"}
    await discovery.refresh()
    assert discovery.masters == {"b"}
    assert discovery.failures.keys() == {"a"}
