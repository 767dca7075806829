"""What a route does at each look at the clusters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from replicator.connector.route import Route
from replicator.errors import Unreachable
from replicator.routing.queue_map import Queue


class Pair:
    """A queue of `broker` that is copied; `address` is where it is read."""

    topic = "T"

    def __init__(self, broker: str) -> None:
        self.state = SimpleNamespace(source=Queue(broker, 0), target=Queue("x", 0))
        self.address = ""

    def follow(self, address: str) -> None:
        self.address = address


def test_a_forgotten_broker_keeps_nobody_from_following_the_others() -> None:
    """Its queues run until the next plan, which comes after that look."""

    def reader(broker: str) -> Any:
        if broker == "forgotten":
            raise Unreachable(broker, "the name servers do not know it")
        return SimpleNamespace(address="h:1")

    pairs = [Pair("forgotten"), Pair("a")]
    route: Any = SimpleNamespace(
        _pairs=[(None, pair) for pair in pairs],
        _context=SimpleNamespace(source=SimpleNamespace(cluster=SimpleNamespace(reader=reader))),
        topics=SimpleNamespace(is_gone=lambda *_: False),
    )
    Route.follow_clusters(cast("Route", route))
    assert [pair.address for pair in pairs] == ["", "h:1"]
