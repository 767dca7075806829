"""A worker gives up the brokers that its group has forgotten, and no others; one that is back is remembered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.client.cluster import Broker, Topology
from replicator.errors import BrokerRefused, Unreachable
from replicator.state.known_brokers import being_given_up, forgotten
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.forgotten_brokers import ForgottenBrokers


class Known:
    """What was found of a cluster, or a log on it: brokers by name."""

    def __init__(self, *brokers: str) -> None:
        self.brokers = set(brokers)
        self.topics = dict.fromkeys(brokers)
        self.failures: dict[str, Exception] = {}

    def forget(self, broker: str) -> bool:
        known = broker in self.brokers
        self.brokers.discard(broker)
        return known


def listed(*brokers: str) -> Topology:
    return Topology("c", {name: Broker(name, {0: "h:1"}) for name in brokers})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    made.put(Kind.BROKER, "source/b", {"forgotten_at": 1.0})
    return made


def test_it_is_given_up_once(store: Store) -> None:
    """Here and in the group's log; others that are away are waited for."""
    found, log = Known("a", "b", "c"), Known("a", "b", "c")
    discovery: Any = found
    part: Any = log
    brokers = ForgottenBrokers(store, {"source": [part], "target": []})
    with capture_logs() as logs:
        assert brokers.follow("source", discovery, listed("a"))
        assert not brokers.follow("source", discovery, listed("a"))
        assert not brokers.follow("target", discovery, listed())
    assert (found.brokers, log.brokers) == ({"a", "c"}, {"a", "c"})
    assert [each["event"] for each in logs] == ["broker is forgotten"]


def test_what_was_stopped_for_one_that_is_back_is_not_forgotten(store: Store) -> None:
    """Whoever gives it up, or repeats that, gives the connectors their states again."""
    resume = {"route": "RUNNING"}
    store.put(Kind.BROKER, "source/a", {"forgotten_at": 1.0, "resume": resume})
    brokers = ForgottenBrokers(store, {"source": [], "target": []})
    discovery: Any = Known("a")
    assert brokers.follow("source", discovery, listed("a"))
    assert store.state.get(Kind.BROKER, "source/a") == {"forgotten_at": None, "resume": resume}
    assert being_given_up(store.state) == {"source/a": resume}
    assert forgotten(store.state, "source") == {"b"}


def test_one_that_is_back_is_remembered(store: Store) -> None:
    """By whoever sees it answer, and the group hears of it: a name server may list it long after its death."""
    brokers = ForgottenBrokers(store, {"source": [], "target": []})
    discovery: Any = SimpleNamespace(forget=None, topics={"a": {}}, failures={})
    with capture_logs() as logs:
        assert not brokers.follow("source", discovery, listed("a", "b"))
        discovery.topics["b"], discovery.failures["b"] = {}, Unreachable("b", "no answer")
        assert not brokers.follow("source", discovery, listed("a", "b"))
        discovery.failures["b"] = BrokerRefused("b", 21, 16, "no permission")  # it is there, and says why it waits
        assert brokers.follow("source", discovery, listed("a", "b"))
        assert not brokers.follow("source", discovery, listed("a", "b"))
    assert forgotten(store.state, "source") == frozenset()
    assert [each["event"] for each in logs] == ["forgotten broker is back: it is used again"]
    assert Kind.BROKER in {record.kind for record in store.take_unpublished()}
