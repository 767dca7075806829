"""What somebody else writes behind the last copy is seen while nothing flows, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.client.vip import vip_address
from replicator.errors import ProtocolError, RequestTimeout
from replicator.routing import target_watch as module
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.routing.target_watch import TargetWatch


class Idle:
    """A queue that has nothing to send; `told` is what the watch has said."""

    topic = "T"

    def __init__(self, connection: object) -> None:
        self.state = QueueState("T", Queue("a", 0), Queue("b", 0))
        self.state.progress.target_end = 10
        self.state.progress.position = self.state.progress.read_to = 5
        self.target_connection: Any = connection
        self.told: list[int | str] = []

    def recheck(self, reason: str) -> None:
        self.told.append(reason)

    def passed(self, end: int) -> None:
        self.told.append(end)


async def looked(monkeypatch: pytest.MonkeyPatch, end: int, meanwhile: dict[str, int] | None = None) -> list[Any]:
    """One look at a queue that ends at `end`, whose progress changes while it is asked for."""
    connection = object()

    async def connected() -> object:
        return connection

    queue = Idle(connection)

    async def max_offset(*_: object) -> int:
        for name, value in (meanwhile or {}).items():
            setattr(queue.state.progress, name, value)
        return end

    monkeypatch.setattr(module, "max_offset", max_offset)
    target: Any = SimpleNamespace(writer=lambda _: SimpleNamespace(connection=connected, address="b:10909"))
    watch = TargetWatch()
    watch.add(queue)
    await watch.check(target, "b")
    return queue.told


async def test_the_end_of_an_idle_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind what was acknowledged, before it, or there."""
    assert await looked(monkeypatch, 10) == []
    assert await looked(monkeypatch, 12) == [12]
    assert await looked(monkeypatch, 9) == ["the target queue ends at offset 9, and 10 was acknowledged"]


@pytest.mark.parametrize("meanwhile", [{"target_end": 12}, {"read_to": 7}])
async def test_a_message_of_ours_is_nobody_elses(
    monkeypatch: pytest.MonkeyPatch, meanwhile: dict[str, int]
) -> None:
    """One that was acknowledged while the end was asked for, or is on its way."""
    assert await looked(monkeypatch, 12, meanwhile) == []


@pytest.mark.parametrize("moving", [False, True])
async def test_an_end_that_is_not_told_in_time(monkeypatch: pytest.MonkeyPatch, moving: bool) -> None:
    """The machine may be gone; but not where it takes what is sent, slowly."""
    connection, dropped = SimpleNamespace(is_moving=moving, closed=False), []

    async def connected() -> object:
        return connection

    async def max_offset(*_: object) -> int:
        raise RequestTimeout("b:10909", 30, 10)

    monkeypatch.setattr(module, "max_offset", max_offset)
    writer = SimpleNamespace(connection=connected, address="b:10909", drop=lambda: dropped.append(True))
    target: Any = SimpleNamespace(writer=lambda _: writer)
    watch, queue = TargetWatch(), Idle(connection)
    watch.add(queue)
    await watch.check(target, "b")
    assert dropped == ([] if moving else [True])
    assert queue.told == []


async def test_a_broker_whose_address_is_none_ends_no_watch() -> None:
    """Its name server says that it listens nowhere, as with an empty `brokerIP1`."""
    watch, queue = TargetWatch(), Idle(None)
    watch.add(queue)
    await watch.check(cast("Any", SimpleNamespace(writer=lambda _: vip_address(":10911"))), "b")
    assert queue.told == [":10911 cannot be reached (':10911' is not host:port)"]


async def test_an_answer_that_is_none_ends_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the end of a queue: its target is checked then."""
    connection = SimpleNamespace(closed=False)

    async def connected() -> object:
        return connection

    async def max_offset(*_: object) -> int:
        raise ProtocolError("answer with code 0: field offset is None, not a number")

    monkeypatch.setattr(module, "max_offset", max_offset)
    writer = SimpleNamespace(connection=connected, address="b:10909")
    watch, queue = TargetWatch(), Idle(connection)
    watch.add(queue)
    await watch.check(cast("Any", SimpleNamespace(writer=lambda _: writer)), "b")
    assert queue.told == ["answer with code 0: field offset is None, not a number"]
