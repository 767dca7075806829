"""A range is read to its end, whatever a broker gives at a time; where it gives nothing of it, that is an error."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.client import queue_range
from replicator.client.pull import Pulled
from replicator.client.queue_range import read_range
from replicator.errors import NothingShown
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage


class Broker:
    """Has the messages of one queue from `oldest` to `end`, and gives nothing for the first `silent` pulls at 5."""

    address = "127.0.0.1:10911"

    def __init__(self, *, oldest: int = 0, end: int = 12, silent: float = 0) -> None:
        self.oldest = oldest
        self.end = end
        self.silent = silent

    async def pull(self, _broker: object, _topic: str, _queue_id: int, offset: int) -> Pulled:
        if offset < self.oldest:
            return Pulled(Response.PULL_OFFSET_MOVED, "", [], 0, self.oldest, self.end, 0)
        if offset == 5 and self.silent > 0:
            self.silent -= 1
            return Pulled(Response.PULL_RETRY_IMMEDIATELY, "", [], 5, self.oldest, self.end, 0)
        shown = [
            StoredMessage(at, 0, 0, 0, 0, 0, 0, b"1234", b"") for at in range(offset, min(offset + 5, self.end))
        ]
        code = Response.SUCCESS if shown else Response.PULL_NOT_FOUND
        return Pulled(code, "", shown, offset + len(shown), self.oldest, self.end, 0)


async def read(broker: Any, monkeypatch: pytest.MonkeyPatch, *bounds: int) -> list[int]:
    monkeypatch.setattr(queue_range, "pull", broker.pull)
    monkeypatch.setattr(queue_range, "_PAUSE", 0.001)
    return [message.queue_offset async for message in read_range(broker, "orders", 3, *bounds)]


@pytest.mark.parametrize(
    ("bounds", "found"),
    [((0,), range(12)), ((4, 9), range(4, 9)), ((4, 30), range(4, 12)), ((12,), range(0)), ((20,), range(0))],
)
async def test_bounds(monkeypatch: pytest.MonkeyPatch, bounds: tuple[int, ...], found: range) -> None:
    assert await read(Broker(), monkeypatch, *bounds) == [*found]


async def test_what_has_gone_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await read(Broker(oldest=7), monkeypatch, 0) == [*range(7, 12)]


@pytest.mark.parametrize("bounds", [(0,), (0, 12)])
async def test_a_broker_that_gives_nothing_for_a_while(monkeypatch: pytest.MonkeyPatch, bounds: Any) -> None:
    """It is asked again: its answer does not say where the queue ends."""
    assert await read(Broker(silent=3), monkeypatch, *bounds) == [*range(12)]


async def test_a_broker_that_gives_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_range, "_PATIENCE", 0.01)
    with pytest.raises(NothingShown, match=r"no messages of orders/3 at offset 5, though the queue ends at 12"):
        await read(Broker(silent=float("inf")), monkeypatch, 0)


@pytest.mark.parametrize("expected", [5, 4, 32], ids=["as much as", "more than", "less than"])
@pytest.mark.parametrize("bounds", [(0, 12), (4, 9), (4, 30), (12, 12)])
async def test_several_pulls_at_a_time(
    monkeypatch: pytest.MonkeyPatch, bounds: tuple[int, int], expected: int
) -> None:
    """Each message once and in order, where a broker gives as much as it is expected to, or not."""
    monkeypatch.setattr(queue_range, "_PULLED", expected)
    monkeypatch.setattr(queue_range, "pull", Broker(oldest=2).pull)
    found = [m.queue_offset async for m in read_range(Broker(), "orders", 3, *bounds, at_once=3)]  # type: ignore[arg-type]
    assert found == [*range(max(2, bounds[0]), min(12, bounds[1]))]


async def test_a_part_that_is_not_given_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was pulled behind it meanwhile is not taken before it."""
    monkeypatch.setattr(queue_range, "_PULLED", 5)
    monkeypatch.setattr(queue_range, "_PAUSE", 0.001)
    broker: Any = Broker(silent=2)
    monkeypatch.setattr(queue_range, "pull", broker.pull)
    found = [m.queue_offset async for m in read_range(broker, "orders", 3, 0, 12, at_once=3)]
    assert found == [*range(12)]
