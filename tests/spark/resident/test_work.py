"""A route in a task has one limit, from its first queue on and whatever its rates become."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.routing.parked import ReleasedMessages
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.settings import RouteSettings
from replicator.spark.resident import work as work_module
from replicator.spark.resident.messages import Released, Work
from replicator.spark.resident.pair import ResidentPair, ResidentRoute, Slot
from replicator.spark.resident.work import RateShares, work_of


def pair_of(
    number: int, settings: RouteSettings, *, route: str = "route", released: ReleasedMessages | None = None
) -> ResidentPair:
    state = QueueState("T", Queue("a", number), Queue("b", number), route=route)
    owner: Any = SimpleNamespace()
    rates = (settings.rate_messages, settings.rate_bytes)
    terms = ResidentRoute(route, settings, 7, lambda: rates, released or ReleasedMessages())
    return ResidentPair(state, owner, terms, topic="T", from_start=False)


def work(settings: RouteSettings) -> Work:
    """What a task is told of one queue."""
    (told,) = work_of([pair_of(0, settings)], {})
    assert isinstance(told, Work)
    return told


def test_rates_are_no_terms() -> None:
    """A queue that begins after they changed is of the same route as those before it."""
    before, after = RouteSettings(rate_messages=100), RouteSettings(rate_messages=50, rate_bytes=9)
    one, other = (work(settings) for settings in (before, after))
    assert one.routes == other.routes
    filtered = work(RouteSettings(tags=["t"]))
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


def test_what_was_released_is_told_before_the_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each topic that a task copies, in parts that fit into a frame."""
    monkeypatch.setattr(work_module, "_TOLD", 2)
    released = ReleasedMessages()
    released.know("T", [b"a", b"b", b"c"])
    released.know("another", [b"d"])
    *first, last = work_of([pair_of(number, RouteSettings(), released=released) for number in range(3)], {})
    assert first == [Released("route", {"T": [b"a", b"b"]}), Released("route", {"T": [b"c"]})]
    assert isinstance(last, Work)
