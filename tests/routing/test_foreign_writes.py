"""The auditor keeps up with many queues, stops at none, and forgets none of others' messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from replicator.errors import Unreachable
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from replicator.routing import foreign_writes as module
from replicator.routing.audit_segment import Difference
from replicator.routing.foreign_writes import ForeignWriteInspector
from replicator.routing.pair import QueuePair
from replicator.routing.queue_map import Queue
from replicator.routing.shared import Shared
from replicator.routing.state import QueueState
from tests.routing.shown import Shown, copy_of
from tests.support.worker import until


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_FIRST", 0.001)
    monkeypatch.setattr(module, "_PAUSE_MOST", 0.01)


@pytest.fixture
def copied_to(make_shared: Callable[..., Shared]) -> Callable[..., QueuePair]:
    """What copies to the queue that a broker shows."""

    def make(broker: Shown, name: str = "b") -> QueuePair:
        state = QueueState("T", Queue("a", 0), Queue(name, 0))
        return QueuePair(state, make_shared(broker=broker), topic="T", from_start=False)

    return make


@asynccontextmanager
async def running() -> AsyncIterator[ForeignWriteInspector]:
    """Ends when all has been looked at."""
    inspector = ForeignWriteInspector()
    task = asyncio.create_task(inspector.run())
    try:
        yield inspector
        async with asyncio.timeout(10):
            await inspector.drained()
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


CopiedTo = Callable[..., QueuePair]


async def test_only_what_lies_between_our_batches_counts(copied_to: CopiedTo) -> None:
    """One pull for all that it covers, no longer than that, and none for what lies between far ranges."""
    broker = Shown(b"", copy_of(0), b"", copy_of(0), *[copy_of(i) for i in range(1, 100)], b"", b"")
    queue = copied_to(broker)
    async with running() as inspector:
        for start, stop in [(0, 1), (2, 3), (3, 4), (103, 105)]:
            inspector.add(queue, start, stop)
    assert broker.asked == [(0, 4), (2, 1), (103, 2)], "once, who has written the last one"
    assert (queue.state.counters.foreign, queue.state.counters.duplicates) == (4, 1)


async def test_a_long_range_is_read_piece_by_piece(copied_to: CopiedTo) -> None:
    """Whatever the broker gives at once."""
    queue = copied_to(Shown(*[b""] * 1000))
    async with running() as inspector:
        inspector.add(queue, 10, 990)
    assert queue.state.counters.foreign == 980


async def test_ranges_of_a_recreated_queue_begin_again(copied_to: CopiedTo) -> None:
    """What it has had before is counted too."""
    broker = Shown(*[b""] * 10)
    queue = copied_to(broker)
    async with running() as inspector:
        inspector.add(queue, 100, 103)
        inspector.add(queue, 5, 6)
    assert all(count > 0 for _, count in broker.asked)
    assert queue.state.counters.foreign == 4


async def test_a_broker_that_is_away_holds_up_no_other(copied_to: CopiedTo) -> None:
    """It is asked again until it is back."""
    gate = asyncio.Event()

    class Away(Shown):
        async def invoke(self, code: int, fields: Mapping[str, str], **more: Any) -> Frame:
            await gate.wait()  # as long as an attempt at a connection takes
            return await super().invoke(code, fields, **more)

    away, here = Away(b""), Shown(b"")
    away.answers = [Unreachable("b", "away")] * 20
    queues = [copied_to(away) for _ in range(12)]
    async with running() as inspector:
        for queue in queues:
            inspector.add(queue, 0, 1)
        other = copied_to(here, "c")
        inspector.add(other, 0, 1)
        await until(lambda: other.state.counters.foreign)
        assert not away.asked
        gate.set()
    assert all(queue.state.counters.foreign == 1 for queue in queues)


@pytest.mark.parametrize("code", [Response.TOPIC_NOT_EXIST, Response.SUCCESS])
async def test_what_cannot_be_looked_at_is_counted(copied_to: CopiedTo, code: Response) -> None:
    """A topic that is gone, an answer that makes no sense: it goes on with the rest."""
    broker = Shown(*[b""] * 200)
    broker.answers = [broker.say(code, 1, b"nonsense")]
    queue = copied_to(broker)
    async with running() as inspector:
        inspector.add(queue, 0, 5)
        inspector.add(queue, 100, 102)
    assert queue.state.counters.foreign == 7


async def test_what_is_not_shown_yet_is_waited_for(copied_to: CopiedTo) -> None:
    """A broker acknowledges before its queues show it; a queue that never does was truncated."""
    broker = Shown(copy_of(0))
    queue = copied_to(broker)
    async with running() as inspector:
        inspector.add(queue, 1, 3)
        await until(lambda: len(broker.asked) >= 3)
        broker.queue += [b"", copy_of(0)]
    assert (queue.state.counters.foreign, queue.state.counters.duplicates) == (1, 1)
    async with running() as inspector:
        inspector.add(queue, 7, 9)
    assert queue.state.counters.foreign == 3


async def test_what_retention_has_taken_is_counted(copied_to: CopiedTo) -> None:
    """The rest is looked at."""
    queue = copied_to(Shown(*[copy_of(i) for i in range(20)], low=10))
    async with running() as inspector:
        inspector.add(queue, 8, 12)
    assert (queue.state.counters.foreign, queue.state.counters.duplicates) == (2, 2)


async def test_it_does_not_grow_without_end(copied_to: CopiedTo) -> None:
    """What waits too long is counted all the same."""
    queue = copied_to(Shown(*[b""] * 10_000))
    inspector = ForeignWriteInspector()
    for offset in range(0, 10_000, 2):
        inspector.add(queue, offset, offset + 1)
        assert len(inspector._waiting[queue].ranges) <= module._MOST
    task = asyncio.create_task(inspector.run())
    await inspector.drained()
    task.cancel()
    assert queue.state.counters.foreign == 5_000


class Reports:
    """What is reported to it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int | None, int | None]] = []

    def add(self, queue: Any) -> None:
        """Nothing is read back here."""

    discard = add

    def report(self, _queue: Any, found: Iterable[Difference]) -> None:
        self.found += [each[:3] for each in found]


async def test_forged_copies_are_differences(make_shared: Callable[..., Shared]) -> None:
    """Twins, copies of what nobody has copied, and of other queues; messages of others are none."""
    broker = Shown(copy_of(0), copy_of(0), copy_of(7), copy_of(0).replace(b"s/a/0/", b"s/a/1/"), b"")
    reports = Reports()
    shared = replace(make_shared(broker=broker, audit_share=1.0), auditor=reports)
    queue = QueuePair(QueueState("T", Queue("a", 0), Queue("b", 0)), shared, topic="T", from_start=False)
    queue.state.progress.position, queue.state.audit.share = 1, 1.0
    async with running() as inspector:
        inspector.add(queue, 1, 5)
    assert reports.found == [("duplicate", 0, 1), ("unknown", 7, 2), ("misplaced", None, 3)]
    assert (queue.state.counters.foreign, queue.state.counters.duplicates) == (2, 2)


async def test_what_lies_behind_the_last_copy_is_inspected_once(make_shared: Callable[..., Shared]) -> None:
    """While nothing flows; not while a request of a dead sender may still be stored."""
    async with running() as inspector:
        shared = replace(make_shared(broker=Shown(copy_of(0), b"", b"")), inspector=inspector)
        queue = QueuePair(QueueState("T", Queue("a", 0), Queue("b", 0)), shared, topic="T", from_start=False)
        queue.state.progress.target_end = 1
        queue.passed(2)
        assert queue.state.progress.target_end == 1, "it does not copy now"
        path: Any = SimpleNamespace(sink=SimpleNamespace(suspicious=True))
        queue._path = path
        queue.passed(2)
        assert queue.state.progress.target_end == 1
        path.sink.suspicious = False
        queue.passed(2)
        queue.passed(3)
    assert (queue.state.progress.target_end, queue.state.counters.foreign) == (3, 2)


async def test_who_writes_foreign_messages_is_said_once_an_hour(
    copied_to: CopiedTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each topic; each queue knows the first and the last of them."""
    clock = 1000.0
    monkeypatch.setattr(module, "now", lambda: clock)
    queues = [copied_to(Shown(copy_of(0), b"", b"", copy_of(1), b""), name) for name in ("b", "c")]
    with capture_logs() as logs:
        async with running() as inspector:
            for queue in queues:
                inspector.add(queue, 1, 3)
            await inspector.drained()
            clock += 3599.0
            inspector.add(queues[0], 4, 5)
            await inspector.drained()
            clock += 2.0
            inspector.add(queues[1], 4, 5)
    assert [queue.state.counters.foreign_offsets for queue in queues] == [(1, 4), (1, 4)]
    told = [(each["target"], each["first"], each["last"], each["born_host"]) for each in logs]
    assert [each["log_level"] for each in logs] == ["warning"] * 2
    assert told[1] == ("c/0", 1, 4, told[0][3])
    assert told[0][:3] in {("b/0", 1, 2), ("c/0", 1, 2)}
    assert told[0][3].count(".") == 3


async def test_copies_are_not_told_of(copied_to: CopiedTo) -> None:
    queue = copied_to(Shown(copy_of(0), copy_of(0)))
    with capture_logs() as logs:
        async with running() as inspector:
            inspector.add(queue, 1, 2)
    assert [each["event"] for each in logs] == ["duplicate at the target"]
    assert queue.state.counters.foreign_offsets is None
