"""Where target queues end: what is believed for how long, and what is shown late."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from replicator.client.cluster import Cluster
from replicator.metadata import target_ends
from replicator.metadata.offsets import CopiedQueue
from replicator.metadata.target_ends import TargetEnds
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.faults import TargetBlocked
from replicator.routing.offset_map import OffsetMap
from replicator.routing.queue_map import Queue

QUEUE = CopiedQueue(Queue("a", 0), Queue("x", 3), "T", 10, 0, OffsetMap(), 0)


class Broker:
    """Ends its queue at `end`, once it shows all at `shown`; `asked` is how often it was asked where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.end = self.shown = 150
        self.asked = self.waited = 0
        self.stuck: Exception | None = None
        monkeypatch.setattr(target_ends, "max_offset", self.max_offset)
        monkeypatch.setattr(DispatchBarrier, "caught_up", self.caught_up)
        cluster: Any = type("Cluster", (), {"master": lambda *_: None})()
        self.ends = TargetEnds(cast("Cluster", cluster))

    async def max_offset(self, *_: object) -> int:
        self.asked += 1
        return self.end

    async def caught_up(self, *_: object) -> None:
        self.waited += 1
        if self.stuck is not None:
            raise self.stuck
        self.end = self.shown


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


async def test_an_offset_in_the_queue_is_asked_about_once(broker: Broker) -> None:
    assert [await broker.ends.if_before(QUEUE, at) for at in (150, 150, 40)] == [None, None, None]
    assert broker.asked == 1


async def test_one_behind_the_end(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the queue went that far before: its topic was recreated."""
    assert await broker.ends.if_before(QUEUE, 151) == 150
    assert await broker.ends.if_before(QUEUE, 100) is None
    broker.end = broker.shown = 10
    assert await broker.ends.if_before(QUEUE, 100) is None  # for a minute
    monkeypatch.setattr(target_ends, "_BELIEVED", -1.0)
    assert await broker.ends.if_before(QUEUE, 100) == 10


async def test_what_the_broker_does_not_show_yet(broker: Broker) -> None:
    """The group has read it: no offset is taken back for that."""
    broker.end = 140
    assert await broker.ends.if_before(QUEUE, 150) is None
    assert broker.waited == 1


@pytest.mark.parametrize("error", [TargetBlocked("it shows not all"), TimeoutError()])
async def test_a_broker_that_goes_on_not_showing_it_is_waited_for_once(broker: Broker, error: Exception) -> None:
    broker.stuck = error
    assert [await broker.ends.if_before(QUEUE, 200) for _ in range(3)] == [None] * 3
    assert broker.waited == 1


async def test_it_is_not_waited_for_longer_than_a_look_may_take(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(DispatchBarrier, "caught_up", never)
    monkeypatch.setattr(target_ends, "_SHOWN", 0.01)
    assert await broker.ends.if_before(QUEUE, 200) is None
