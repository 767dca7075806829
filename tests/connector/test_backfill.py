"""What Spark has copied is taken over once, and no queue waits longer than it has to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector import backfill as module
from replicator.connector.backfill import Backfill, _Run
from replicator.connector.spark_jobs import Bulk
from replicator.ranges.copy_job import CopyOutcome
from replicator.routing.audit_budget import AuditBudget
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.pair import QueuePair
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import CopyRecord
from replicator.routing.state import QueueState
from replicator.settings import RouteSettings


@pytest.fixture(autouse=True)
def forty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that each queue of the source has."""

    async def max_offset(*_: object) -> int:
        return 40

    monkeypatch.setattr(module, "max_offset", max_offset)


class Scene:
    """A route's backfill of the queue 0 of `topics`, in which a test plays Spark."""

    def __init__(self, *topics: str, turn: asyncio.Lock | None = None, audit_share: float = 0.0) -> None:
        self.keys = [MessageQueue(topic, "a", 0) for topic in topics]
        bulk: Any = SimpleNamespace(
            runs={},
            has_residents=False,
            turn=turn or asyncio.Lock(),
            settings=SimpleNamespace(standalone=False, spark_master=None),
            claiming=self._claiming,
        )
        self.bulk = bulk
        self.pairs: Any = {key: self._pair(key) for key in self.keys}
        source: Any = SimpleNamespace(reader=lambda _: None)
        self.backfill = Backfill(
            "route",
            RouteSettings(backfill=True),
            RouteOptions(identity=Identity("s", "t"), audit_share=audit_share),
            source,
            bulk,
            task_of=lambda key: f"route/{key.topic}",
            rates=lambda: (0, 0),
            on_over=lambda: None,
        )

    @asynccontextmanager
    async def _claiming(self, _: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(lease=None)

    def _pair(self, key: MessageQueue) -> Any:
        async def first_offset() -> int:
            return 0

        state = QueueState(key.topic, key.queue, Queue("b", 0))
        state.progress.clean = True
        shared: Any = SimpleNamespace()
        source: Any = SimpleNamespace(first_offset=first_offset)
        return QueuePair(state, shared, topic=key.topic, from_start=False, source=source)

    def copied(self, outcome: CopyOutcome) -> QueueState:
        """The state of the first queue after Spark's `outcome` of it, which no longer waits."""
        (key,), run = self.keys, _Run(self.pairs, [])
        self.backfill._copied(run, key, outcome)
        assert not run.waiting
        state: QueueState = self.pairs[key].state
        return state


async def test_spark_has_found_all_of_it_at_the_target() -> None:
    """The last copy is the one that was known before; what else it has found still counts."""
    scene = Scene("T")
    progress = scene.pairs[scene.keys[0]].state.progress
    progress.offsets.add(0, 5, 10)
    progress.position, progress.start, progress.store_timestamp = 10, 0, 99
    tail = CopyRecord(9, 99, 14)
    state = scene.copied(
        CopyOutcome("T/a/0", 10, 14, gaps=3, left_out={"filter": 1}, tail=tail, duplicates=2, foreign=4)
    )
    assert (state.progress.position, state.progress.last) == (14, tail)
    counters = state.counters
    assert (counters.gaps, counters.skipped, counters.skipped_to) == (3, {"filter": 1}, 14)
    assert (counters.duplicates, counters.foreign) == (2, 4)


async def test_spark_has_seen_the_source_begin_again() -> None:
    """What was known is of the queue before."""
    scene = Scene("T")
    progress = scene.pairs[scene.keys[0]].state.progress
    progress.offsets.add(0, 5, 100)
    progress.position, progress.start, progress.store_timestamp = 100, 0, 99
    tail = CopyRecord(39, 200, 144)
    state = scene.copied(CopyOutcome("T/a/0", 0, 40, copied=40, tail=tail, resets=1))
    assert (state.progress.position, state.progress.last, state.counters.resets) == (40, tail, 1)
    assert state.progress.offsets.target_of(5) is None


async def test_what_spark_has_copied_is_known() -> None:
    scene = Scene("T")
    state = scene.copied(CopyOutcome("T/a/0", 0, 40, copied=40, tail=CopyRecord(39, 200, 44)))
    progress = state.progress
    assert (progress.start, progress.position, progress.last) == (0, 40, CopyRecord(39, 200, 44))
    assert state.counters.copied == 40


@pytest.mark.parametrize("share", [0.0, 1.0])
async def test_what_spark_has_copied_is_not_audited(share: float) -> None:
    """It counts, with what was not verified before, and the audit goes on after it; where the audit is off, too. Of
    what Spark sent the offset map has only the end, so all else would be missing.
    """
    scene = Scene("T", audit_share=share)
    state = scene.pairs[scene.keys[0]].state
    state.progress.offsets.add(0, 0, 1000)
    state.progress.position, state.progress.start, state.progress.store_timestamp = 1000, 0, 99
    state.audit.restore({"to": 990, "rules": 0, "verified": 990})
    tail = CopyRecord(20_000_099, 200, 20_000_000)
    scene.copied(
        CopyOutcome("T/a/0", 1000, 20_000_100, copied=19_999_000, before=1, left_out={"filter": 99}, tail=tail)
    )
    assert (state.audit.verified_to, state.audit.unverified) == (20_000_100, {"backfill": 19_999_011})
    state.audit.begin(1.0, AuditBudget(), 0)
    state.audit.found(state.progress.offsets, 20_000_100, 20_000_001, 0.0)
    assert state.audit.is_idle


@pytest.mark.parametrize(("share", "to"), [(0.0, None), (1.0, 40)])
async def test_a_new_queues_backfill_counts_where_there_is_an_audit(share: float, to: int | None) -> None:
    scene = Scene("T", audit_share=share)
    state = scene.copied(CopyOutcome("T/a/0", 0, 40, copied=40, tail=CopyRecord(39, 200, 44)))
    assert (state.audit.verified_to, state.audit.unverified) == (to, {"backfill": 40} if share else {})


async def test_a_task_that_stops_waits_for_no_other_routes_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """That may take hours. What is not stopped still has its turn, and a turn that nobody wants is given back."""
    turn = asyncio.Lock()
    await turn.acquire()
    scene = Scene("T", "U", turn=turn)
    stopped, other = scene.keys
    copied: list[MessageQueue] = []

    async def by_spark(run: _Run, parts: Mapping[MessageQueue, Any]) -> None:
        copied.extend(parts)
        scene.backfill._release(run, list(parts))

    monkeypatch.setattr(scene.backfill, "_by_spark", by_spark)
    async with asyncio.TaskGroup() as group:
        scene.backfill.begin(scene.pairs, group)
        await asyncio.sleep(0.01)
        scene.backfill.stop([stopped])
        async with asyncio.timeout(5):
            await scene.backfill.over(stopped)
        assert copied == []
        assert scene.backfill.queues == 1
        turn.release()
        async with asyncio.timeout(5):
            await scene.backfill.over(other)
    assert copied == [other]
    assert not turn.locked()


async def test_a_worker_that_ends_gives_its_turn_back() -> None:
    """Whether it had it, or waited for it."""
    turn = asyncio.Lock()
    await turn.acquire()
    scene = Scene("T", turn=turn)
    run = _Run(scene.pairs, [])
    waiting = asyncio.create_task(scene.backfill._once(run, {}))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    turn.release()
    async with asyncio.timeout(5):
        await turn.acquire()


async def test_whatever_becomes_of_a_job_its_queues_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks may have sent something that the target has not stored yet; a queue without a job has nothing."""
    scene = Scene("T", "U")
    spark, live = scene.keys

    def copy(*_: object) -> None:
        raise RuntimeError("its JVM was killed")

    monkeypatch.setattr(scene.backfill, "_copy", copy)
    monkeypatch.setattr(scene.backfill, "_job", lambda _: None)
    run = _Run(scene.pairs, [])
    with pytest.raises(RuntimeError):
        await scene.backfill._once(run, {spark: None})  # type: ignore[dict-item]
    assert [scene.pairs[key]._target.unsettled for key in (spark, live)] == [True, False]


async def test_a_job_that_would_find_no_slot_is_not_submitted() -> None:
    """Queues that live in Spark keep theirs for ever, so that the others would wait as long."""
    scene = Scene("T")
    scene.bulk.has_residents = True
    run = _Run(scene.pairs, [])
    assert await scene.backfill._parts(run) == {}
    scene.bulk.has_residents = False
    assert list(await scene.backfill._parts(run)) == scene.keys


async def test_queues_that_come_to_live_in_spark_end_a_backfill(monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep Spark's slots from then on: the live tasks copy the rest."""
    scene = Scene("T", "U")
    copying = threading.Event()

    def copy(run: _Run, *_: object) -> None:
        copying.set()
        while not run.stop.is_set():
            time.sleep(0.01)

    monkeypatch.setattr(scene.backfill, "_copy", copy)
    monkeypatch.setattr(scene.backfill, "_job", lambda _: None)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        scene.backfill.begin(scene.pairs, group)
        await asyncio.to_thread(copying.wait, 10)
        Bulk._give_up_runs(scene.bulk)
        for key in scene.keys:
            await scene.backfill.over(key)
    assert scene.backfill.queues == 0
