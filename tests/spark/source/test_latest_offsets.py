"""A stream outlasts a broker that restarts, be it the only one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.cluster import Topology
from replicator.client.nameservers import NoBrokers
from replicator.errors import ProtocolError, ReplicatorError, Unreachable
from replicator.spark.source import latest_offsets
from replicator.spark.source.latest_offsets import Watch


def watch(*errors: Exception) -> Watch:
    """One whose name server says these first."""
    left = list(errors)

    async def refresh() -> Topology:
        if left:
            raise left.pop(0)
        return Topology("c", {})

    cluster: Any = SimpleNamespace(refresh=refresh, brokers=dict)
    return Watch(cluster, lambda *_: [])


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_offsets, "_PAUSE", 0.001)


async def test_a_broker_that_comes_back_is_waited_for() -> None:
    """It may answer oddly while it starts, and its name server forgets it as soon as it is down."""
    errors = (
        Unreachable("b:1", "refused"),
        NoBrokers("no broker is registered at n:1"),
        ProtocolError("half a frame"),
    )
    assert await watch(*errors).ends({}) == {}


async def test_one_that_stays_away_is_given_up() -> None:
    away = NoBrokers("no broker is registered at n:1")
    with pytest.raises(ReplicatorError, match="the source cannot be asked what it has: no broker is registered"):
        await watch(*[away] * 100).ends({})
