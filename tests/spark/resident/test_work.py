"""A route in a task has one limit, from its first queue on and whatever its rates become."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.settings import RouteSettings
from replicator.spark.resident.pair import ResidentPair, ResidentRoute, Slot
from replicator.spark.resident.work import RateShares, work_of


def pair_of(number: int, settings: RouteSettings, *, route: str = "route") -> ResidentPair:
    state = QueueState("T", Queue("a", number), Queue("b", number), route=route)
    owner: Any = SimpleNamespace()
    rates = (settings.rate_messages, settings.rate_bytes)
    terms = ResidentRoute(route, settings, 7, lambda: rates)
    return ResidentPair(state, owner, terms, topic="T", from_start=False)


def test_rates_are_no_terms() -> None:
    """A queue that begins after they changed is of the same route as those before it."""
    before, after = RouteSettings(rate_messages=100), RouteSettings(rate_messages=50, rate_bytes=9)
    (one,), (other,) = (work_of([pair_of(0, settings)], {}) for settings in (before, after))
    assert one.routes == other.routes
    (filtered,) = work_of([pair_of(0, RouteSettings(tags=["t"]))], {})
    assert filtered.routes != one.routes
    assert RouteSettings(**filtered.routes["route"].settings).tags == RouteSettings(tags=["t"]).tags


async def test_the_parts_of_a_limit_are_those_of_the_queues() -> None:
    """Also of queues that were just given to another task."""
    settings = RouteSettings(rate_messages=90, rate_bytes=900)
    slots = {number: Slot(number) for number in range(2)}
    shares = RateShares(slots)
    slots[0].pairs = {str(i): pair_of(i, settings) for i in range(2)}
    assert shares.of(slots[0]) == {"route": (90, 900)}
    slots[1].pairs = {"2": pair_of(2, settings), "3": pair_of(0, RouteSettings(), route="other")}
    shares.forget()
    assert shares.of(slots[0]) == {"route": (60, 600)}
    assert shares.of(slots[1]) == {"route": (30, 300), "other": (0, 0)}
    await asyncio.sleep(0)
