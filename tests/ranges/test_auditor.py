"""What is planted at the target is named, each kind, at its place, once; and nothing is named without a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from replicator.errors import Unreachable
from replicator.protocol.message import StoredMessage
from replicator.ranges import auditor as module
from replicator.ranges import read_back
from replicator.ranges.read_back import Stored
from replicator.routing.faults import TransformRefused
from replicator.routing.queue_map import Queue
from tests.ranges.target_queue import MADE, AuditedQueue, TargetQueue, message

Queued = Callable[..., AuditedQueue]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Queued:
    """Makes a queue that is copied; what it is given are options of its route."""

    def make(target: TargetQueue | None = None, **options: Any) -> AuditedQueue:
        return AuditedQueue(monkeypatch, target or TargetQueue(), **options)

    return make


def some(count: int, *, start: int = 0, step: int = 1, body: bytes = b"body") -> list[StoredMessage]:
    return [message(start + step * i, body=body + b"%d" % i) for i in range(count)]


@pytest.mark.parametrize("made", MADE)
async def test_what_is_as_it_was_sent(copied: Queued, made: bytes) -> None:
    """In pulls of other sizes than batches, whatever a broker appends; read again a minute later, and so on."""
    queue = copied(TargetQueue(low=100, made=made))
    queue.send(some(50))
    queue.send(some(45, start=60, step=3))  # a filter left out the others
    assert await queue.audit() == []
    trail = queue.state.audit
    assert (trail.verified, trail.verified_to, trail.unverified) == (95, 60 + 44 * 3 + 1, {})
    assert trail.age(queue.clock) == 0
    before = queue.target.pulls
    assert await queue.audit(seconds=200) == []
    assert trail.verified == 95
    assert queue.target.pulls - before == 3 * -(-95 // 32)


PLANTED: dict[str, Callable[[TargetQueue], None]] = {
    "body": lambda target: target.flip(7, b"body"),
    "properties": lambda target: target.flip(7, b"k\x02"),
    "missing": lambda target: target.messages.__setitem__(7, None),
    "stale": lambda target: target.flip(7, b"7\x02KEYS"),
}


@pytest.mark.parametrize("kind", PLANTED)
async def test_one_message(copied: Queued, kind: str) -> None:
    """Before it is read back for the first time, and after that."""
    for late in (False, True):
        queue = copied()
        queue.send(some(70))
        if late:
            assert await queue.audit() == []
        PLANTED[kind](queue.target)
        assert await queue.audit(seconds=70) == [(kind, 7, 7)]
        assert await queue.audit(seconds=200) == []  # once
        assert queue.state.audit.differences == {kind: 1}


async def test_a_message_that_no_reader_can_parse(copied: Queued) -> None:
    """It is named, the others around it are read one by one."""
    queue = copied()
    queue.send(some(70))
    found = queue.target.messages[40]
    assert found is not None
    queue.target.messages[40] = found[:4] + b"\0" + found[5:]  # its magic
    assert await queue.audit() == [("changed", 40, 40)]


async def test_swapped_messages(copied: Queued) -> None:
    """Each is named, with where it was stored."""
    queue = copied()
    queue.send(some(70))
    kept = queue.target.messages[7]
    queue.target.move(30, 7)
    queue.target.messages[30] = kept
    queue.target.move(30, 30)
    assert await queue.audit() == [("reordered", 7, 30), ("reordered", 30, 7)]


async def test_a_twin_in_the_place_of_another(copied: Queued) -> None:
    """One message is twice, the other one missing."""
    queue = copied()
    queue.send(some(70))
    queue.target.move(7, 8)
    assert await queue.audit() == [("duplicate", 7, 8), ("missing", 8, 8)]


async def test_headers(copied: Queued) -> None:
    """What a batch has once, and the copies have each, is compared too."""
    queue = copied()
    queue.send(some(40))
    found = queue.target.messages[7]
    assert found is not None
    queue.target.messages[7] = found[:36] + (1).to_bytes(4) + found[40:]  # its sysFlag
    assert await queue.audit() == [("header", 7, 7)]


async def test_what_is_copied_again_meanwhile(copied: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found in copies that the target has lost since then is not named."""
    queue = copied()
    queue.send(some(40))
    queue.target.messages[7] = None

    async def stored(*place: Any, **more: Any) -> Stored:
        queue.state.audit.cut(0)
        return await read_back.stored(*place, **more)

    monkeypatch.setattr(module, "stored", stored)
    assert await queue.audit() == []
    assert queue.state.audit.is_idle


async def test_twins_in_what_was_found(copied: Queued) -> None:
    """Whoever read the queue when it was found has counted them."""
    queue = copied()
    queue.send(some(10))
    assert await queue.audit() == []
    (new,) = some(1, start=10)
    for _ in range(2):
        queue.send([new], told=False)
    queue.source.pop()
    offsets = queue.state.progress.offsets
    offsets.add(10, 10, 1)
    queue.state.audit.found(offsets, 11, 12, queue.clock)
    assert await queue.audit() == []
    assert queue.state.audit.verified_to == 11


async def test_a_message_that_a_broker_fails_at(copied: Queued) -> None:
    """As where its index leads nowhere: it is named once the others can be read around it."""
    queue = copied()
    queue.send(some(40))
    queue.target.refusing = {7}
    assert await queue.audit(seconds=30) == [("changed", 7, 7)]
    assert queue.state.audit.verified_to == 40


async def test_a_broker_that_fails_at_all(copied: Queued) -> None:
    """That says nothing of the messages: it may lack a permission, or time."""
    queue = copied()
    queue.send(some(40))
    queue.target.refusing = set(range(40))
    assert await queue.audit(seconds=30) == []
    queue.target.refusing = set()
    assert await queue.audit() == []
    assert queue.state.audit.verified == 40


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    step=st.sampled_from([1, 2]),
    made=st.sampled_from(MADE),
    where=st.floats(0, 0.999),
    other=st.floats(0, 0.999),
    kind=st.sampled_from(["", "body", "missing", "swap", "twin"]),
    foreign=st.booleans(),
    late=st.booleans(),
)
def test_planted_anywhere(
    copied: Queued,
    sizes: list[int],
    step: int,
    made: bytes,
    where: float,
    other: float,
    kind: str,
    *,
    foreign: bool,
    late: bool,
) -> None:
    """In any batch, with messages of others between batches, before or after it was verified."""

    async def body() -> None:
        queue, places, start = copied(TargetQueue(made=made)), list[tuple[int, int]](), 0
        for size in sizes:
            messages = some(size, start=start, step=step)
            places += [(each.queue_offset, len(queue.target.messages) + i) for i, each in enumerate(messages)]
            queue.send(messages)
            start = messages[-1].queue_offset + 1
            if foreign:
                queue.target.store(b"somebody's", b"KEYS\x01x\x02")
        if late:
            assert await queue.audit() == []
        source, at = places[int(where * len(places))]
        source_2, at_2 = places[int(other * len(places))]
        expected: set[object] = set()
        if kind == "body":
            queue.target.flip(at, b"body")
            expected = {("body", source, at)}
        elif kind == "missing":
            queue.target.messages[at] = None
            expected = {("missing", source, at)}
        elif kind == "swap" and at != at_2:
            kept = queue.target.messages[at]
            queue.target.move(at_2, at)
            queue.target.messages[at_2] = kept
            queue.target.move(at_2, at_2)
            expected = {source, source_2}
        elif kind == "twin" and at != at_2:
            queue.target.move(at, at_2)
            expected = {source_2}
        found = await queue.audit(seconds=70)
        if kind in ("swap", "twin"):
            assert expected <= {each[1] for each in found}
            assert bool(found) == bool(expected)
        else:
            assert set(found) == expected
        assert await queue.audit(seconds=130) == []

    asyncio.run(body())


async def test_what_the_target_does_not_show_yet(copied: Queued) -> None:
    """It is waited for, a minute long; then it is missing."""
    queue = copied()
    queue.send(some(40))
    queue.target.shown = 39
    assert await queue.audit(seconds=20) == []
    assert queue.state.audit.verified_to == 0
    assert queue.state.audit.age(queue.clock) == 20
    queue.target.shown = 40
    assert await queue.audit() == []
    assert queue.state.audit.verified_to == 40
    queue.send(some(5, start=40))
    queue.target.shown = 44
    assert await queue.audit(seconds=120) == [("missing", 44, 44)]


async def test_what_retention_has_deleted_is_no_difference(copied: Queued) -> None:
    """It counts as unverified, and what was verified is forgotten."""
    queue = copied()
    queue.send(some(40))
    queue.target.low = 3
    assert await queue.audit() == []
    assert queue.state.audit.unverified == {"retention": 40}
    queue.send(some(10, start=40))
    assert await queue.audit() == []
    queue.target.low = 50
    assert await queue.audit(seconds=100) == []
    assert (queue.state.audit.verified, queue.state.audit.unverified) == (10, {"retention": 40})


async def test_what_was_found_is_compared_with_the_source(copied: Queued) -> None:
    """After a takeover, or when nobody was told what was stored: also what is missing or in the wrong order."""
    queue = copied()
    queue.send(some(10))
    assert await queue.audit() == []
    first, second, third = some(3, start=10)
    for each in (third, first):  # recovery takes the copies that come after one another, and counts the others
        queue.send([each], told=False)
    queue.source.append(second)
    offsets = queue.state.progress.offsets
    offsets.add(12, 10, 1)
    queue.state.audit.found(offsets, 13, 12, queue.clock)
    assert queue.state.audit.age(queue.clock + 3) == 3
    assert await queue.audit() == [("reordered", 10, 11), ("missing", 11, None)]
    queue.state.audit.found(offsets, 13, 12, queue.clock)
    assert await queue.audit() == []
    assert queue.state.audit.verified_to == 13


async def test_a_long_hole_in_what_was_found(copied: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many messages are named, and held in memory; copies behind the hole are found for all that."""
    monkeypatch.setattr(module, "SEGMENT", 20)
    queue = copied(on_error="fail")
    queue.send(some(10))
    assert await queue.audit() == []
    lost = some(500, start=10)
    (last,) = some(1, start=510)
    queue.send([last], told=False)
    queue.source[-1:-1] = lost
    offsets = queue.state.progress.offsets
    offsets.add(510, 10, 1)
    queue.state.audit.found(offsets, 511, 11, queue.clock)
    assert await queue.audit() == [("missing", source, None) for source in range(10, 30)]
    assert queue.state.audit.differences == {"missing": 21}


async def test_transforms(copied: Queued) -> None:
    """What they make of a message is what counts; what they leave out or refuse is not missing."""

    def transform(_topic: str, _queue: Queue, each: StoredMessage) -> StoredMessage | None:
        if each.queue_offset == 3:
            raise TransformRefused("no")
        return None if each.queue_offset == 4 else message(each.queue_offset, body=b"transformed")

    queue = copied(transform=transform)
    original = some(8)
    queue.send([message(i, body=b"transformed") for i in (0, 1, 2, 5, 6, 7)])
    queue.source[:] = original
    queue.target.flip(4, b"transformed")
    assert await queue.audit() == [("body", 6, 4)]


async def test_without_the_source(copied: Queued) -> None:
    """What it has deleted is still held to the checksum, and to its place."""
    queue = copied()
    queue.send(some(40))
    queue.gone_before = 20
    queue.target.messages[7] = None
    assert await queue.audit() == [("missing", 7, 7)]
    queue.send(some(40, start=40))
    queue.gone_before = 60
    queue.target.flip(45, b"body")
    assert await queue.audit() == [("body", 45, 45)]  # by the checksum that the target has of each body
    queue.send(some(40, start=80))
    queue.gone_before = 120
    queue.target.flip(85, b"k\x02")
    assert await queue.audit() == [("changed", 80, 80)]


async def test_a_target_that_shows_little_when_it_is_back(copied: Queued) -> None:
    """However long it was away: what it does not show yet is waited for, and not missing."""
    queue = copied()
    queue.send(some(40))
    queue.target.failing = Unreachable("target:10911", "down")
    assert await queue.audit(seconds=300) == []
    queue.target.failing, queue.target.shown = None, 20
    assert await queue.audit(seconds=10) == []
    queue.target.shown = None
    assert await queue.audit(seconds=60) == []
    assert queue.state.audit.verified == 40


async def test_a_target_that_is_away(copied: Queued) -> None:
    """Nothing is named; it is read as soon as it is back."""
    queue = copied()
    queue.send(some(40))
    queue.target.failing = Unreachable("target:10911", "down")
    assert await queue.audit(seconds=60) == []
    assert 5 < queue.target.pulls < 30
    queue.target.failing = None
    assert await queue.audit() == []
    assert queue.state.audit.verified == 40


async def test_a_bug_ends_nothing(copied: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was at counts as unverified."""

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    queue = copied()
    queue.send(some(40))
    monkeypatch.setattr(module, "read_back", broken)
    assert await queue.audit() == []
    assert queue.state.audit.unverified == {"error": 40}
    assert queue.state.audit.verified_to == 40


async def test_queues_take_turns(copied: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more is due than is read at a time, the others come first at the next turn."""
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    queue, other = copied(), copied()
    queue.auditor.add(other)
    for each in (queue, other):
        for first in range(0, 40, 10):
            each.send(some(10, start=first))
            each.state.audit._close()
    for count in range(1, 4):
        async with asyncio.TaskGroup() as readers:
            await queue.auditor._turn(readers)
        async with asyncio.TaskGroup() as readers:
            await queue.auditor._turn(readers)
        assert (queue.state.audit.verified, other.state.audit.verified) == (10 * count, 10 * count)
