"""What reading a segment back says of it, and how little it asks for."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.ranges.read_back import Outcome, read_back, stored
from replicator.routing.audit_segment import Segment
from tests.ranges.target_queue import MADE, AuditedQueue, TargetQueue, message


@pytest.fixture(params=MADE)
def target(request: pytest.FixtureRequest) -> TargetQueue:
    return TargetQueue(made=request.param)


def sent(monkeypatch: pytest.MonkeyPatch, target: TargetQueue, count: int) -> Segment:
    """A segment of so many messages that were sent to `target`."""
    queue = AuditedQueue(monkeypatch, target)
    queue.send([message(i) for i in range(count)])
    queue.state.audit._close()
    (segment,) = queue.state.audit._waiting
    return segment


def place(target: TargetQueue) -> Any:
    return target, "T", 0


async def test_the_same(monkeypatch: pytest.MonkeyPatch, target: TargetQueue) -> None:
    """In pulls of 32, whatever a broker appends, and whoever writes after it."""
    segment = sent(monkeypatch, target, 70)
    target.store(b"somebody's", b"")
    assert await read_back(place(target), segment) == (Outcome.SAME, 3)


@pytest.mark.parametrize(
    ("low", "shown", "outcome"),
    [(1, None, Outcome.GONE), (0, 69, Outcome.UNSHOWN), (0, 10, Outcome.UNSHOWN), (0, 0, Outcome.UNSHOWN)],
)
async def test_not_there(
    monkeypatch: pytest.MonkeyPatch, target: TargetQueue, low: int, shown: int | None, outcome: Outcome
) -> None:
    """Deleted by retention, or not shown yet."""
    segment = sent(monkeypatch, target, 70)
    target.low, target.shown = low, shown
    assert (await read_back(place(target), segment))[0] is outcome
    assert (await stored(place(target), 0, 70)).outcome is outcome


@pytest.mark.parametrize("at", [0, 31, 32, 69])
async def test_a_hole(monkeypatch: pytest.MonkeyPatch, target: TargetQueue, at: int) -> None:
    """At the beginning, or the end, of a pull."""
    segment = sent(monkeypatch, target, 70)
    target.messages[at] = None
    assert (await read_back(place(target), segment))[0] is Outcome.DIFFERS
    found = await stored(place(target), 0, 70)
    assert [each.queue_offset for each in found.messages] == [i for i in range(70) if i != at]
    assert (found.outcome, found.broken) == (Outcome.SAME, {})


async def test_what_cannot_be_parsed(monkeypatch: pytest.MonkeyPatch, target: TargetQueue) -> None:
    """Only that is left out."""
    segment = sent(monkeypatch, target, 70)
    for at in (3, 40):
        found = target.messages[at]
        assert found is not None
        target.messages[at] = found[:4] + b"\0" + found[5:]
    assert (await read_back(place(target), segment))[0] is Outcome.DIFFERS
    read = await stored(place(target), 0, 70)
    assert read.broken.keys() == {3, 40}
    assert len(read.messages) == 68
