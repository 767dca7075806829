"""What is said of name servers, by which of them answer."""

from __future__ import annotations

from replicator.client.cluster import Broker, Topology
from replicator.operate.doctor.finding import Level
from replicator.operate.doctor.network import Heard, judge_behind_proxy, judge_name_servers
from replicator.settings import ClusterSettings

ALIVE = Heard("a:9876", 2.4)
DEAD = Heard("b:9876", failure="b:9876 cannot be reached (Connection refused)")


def test_one_of_two_is_dead() -> None:
    """The route uses the other one; with none there is no route."""
    first, second = judge_name_servers("source", [ALIVE, DEAD])
    assert (first.level, first.message) == (Level.OK, "answers in 2 ms")
    assert (second.level, second.subject) == (Level.WARNING, "b:9876")
    assert "the route uses a:9876" in second.message
    assert "leave it out of --source" in second.advice
    assert [each.level for each in judge_name_servers("source", [DEAD])] == [Level.ERROR]


def test_brokers_behind_a_proxy() -> None:
    """What it does not tell of each is named, and nothing of it is an error."""
    topology = Topology("east", {name: Broker(name, {0: "p:8080"}) for name in ("b", "a")})
    found = [*judge_behind_proxy("source", topology, ClusterSettings(namesrv=["p:8080"], proxy=True))]
    assert [each.level for each in found] == [Level.OK, Level.NOT_CHECKED, Level.NOT_CHECKED, Level.OK]
    assert found[0].message == "brokers that have the topics: a, b"
    assert "a Proxy does not tell them" in found[1].message
    assert [each.check for each in judge_name_servers("source", [ALIVE], called="Proxy")] == ["source Proxy"]
