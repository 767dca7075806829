"""What a sink task does, and says, while the target takes nothing for a moment or for longer, or refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from replicator.client.line_window import LineWindow
from replicator.client.send import Stored
from replicator.errors import BrokerRefused, Unreachable
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.routing import sink_task
from replicator.routing.batcher import Batcher
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Chunk
from replicator.routing.faults import (
    Drained,
    OutcomeUnknown,
    QueueFailed,
    SourceEnded,
    StoredElsewhere,
    TargetBlocked,
)
from replicator.routing.limiter import RateLimiter
from replicator.routing.options import Transform
from replicator.routing.packing import Packer
from replicator.routing.pair import QueuePair
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import Seen
from replicator.routing.queue_steps import TRANSITIONS, Event, Step, event_of
from replicator.routing.shared import Shared
from replicator.routing.sink_task import SinkTask
from replicator.routing.state import Phase, QueueState
from replicator.routing.transforming import Transforming
from tests.routing.shown import Shown, check_of, copy_of

BUSY = BrokerRefused("b", 0, Response.SYSTEM_BUSY, "too many requests")
ILLEGAL = BrokerRefused("b", 0, Response.MESSAGE_ILLEGAL, "the message is illegal")

Send = Callable[..., Awaitable[None]]


@pytest.fixture
def state() -> QueueState:
    """Of a queue that runs."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0), route="route")
    state.set_phase(Phase.RUNNING)
    state.progress.position = 0
    return state


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The sink task's clock, whose pauses take no time."""
    clock = Clock()
    monkeypatch.setattr(sink_task, "now", clock)
    monkeypatch.setattr(sink_task, "_FIRST_PAUSE", 0.0)
    return clock


class Target:
    """A target over one connection that gives `answers`, one after the other, each after `takes` seconds."""

    address = "b:10909"

    def __init__(self, clock: Clock, *answers: Exception | Stored, takes: float = 0.0) -> None:
        self.line = LineWindow(lambda: 0.0)
        self.away: Exception | None = None
        self.asked = 0
        self._clock = clock
        self._takes = takes
        self._answers = iter(answers)

    async def connection(self) -> Any:
        if self.away is not None:
            await self._ask()
            raise self.away
        return self

    async def send(self, *_request: object) -> Stored:
        await self._ask()
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _ask(self) -> None:
        self.asked += 1
        self._clock.at += self._takes


async def send_to(
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    state: QueueState,
    *,
    topic: str = "T",
    offsets: Sequence[int] = (0,),
    transform: Transform | None = None,
    suspicious: bool = False,
    limiter: RateLimiter | None = None,
    ends: Exception | None = None,
    **options: Any,
) -> None:
    """Has messages sent, after the first of which two are left out; a dead letter goes to the same target."""
    monkeypatch.setattr(sink_task, "send_batch", target.send)
    monkeypatch.setattr(sink_task, "send_single", target.send)
    over = cast("Any", target)
    packer = Packer(Stamp("east", "a", 0), topic=topic, limit=10**6, max_messages=10, exact_born=False)
    budget = MemoryBudget(10**6)
    channel = Channel(budget, None if transform else packer)
    budget.charge(10)
    messages = [StoredMessage(at, 0, 0, 1, 2, 0, 3, b"\0\0\0\1x", b"") for at in offsets]
    channel.put(Chunk(messages, offsets[-1] + 3, 10, copies=False, last_stored=99))
    if ends is not None:
        channel.fail(ends)
    given = {"sealer": None, "late_before": 0, "on_error": "skip", "dead_letter_topic": "DEAD"} | options
    task = SinkTask(
        over,
        over,
        channel,
        Batcher(channel, packer, transformed=transform is not None),
        topic=topic,
        state=state,
        options=cast("Any", SimpleNamespace(**given)),
        limiter=limiter or RateLimiter(),
        dead_letters=cast("Any", SimpleNamespace(put=target.send)),
        on_taken=lambda: None,
        on_shift=lambda _first, _end: None,
        suspicious=suspicious,
        may_send=lambda: True,
        transforming=Transforming(transform, topic, state.source, ahead=10) if transform else None,
    )
    await task.flush()


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch, state: QueueState, clock: Clock) -> Send:
    """Has one message sent to a target that gives these answers; what else is given goes to `send_to`."""

    async def send(*answers: Exception | Stored, takes: float = 0.0, **more: Any) -> None:
        await send_to(Target(clock, *answers, takes=takes), monkeypatch, state, **more)

    return send


async def test_a_short_pause_of_the_target_is_no_news(send: Send, state: QueueState) -> None:
    """It is counted; the queue never waited, so it does not stop waiting either."""
    with capture_logs() as logs:
        await send(BUSY, Stored(0, 0))
    assert logs == []
    assert (state.phase, state.reason) == (Phase.RUNNING, "")
    assert (state.progress.position, state.progress.seen) == (3, Seen(2, 99))
    assert state.counters.retries == 1


@pytest.mark.parametrize("rate", [0, 1])
async def test_what_limits_hold_back_is_not_waited_for_at_the_end(send: Send, state: QueueState, rate: int) -> None:
    """Others read it again; without limits all that was pulled is sent."""
    limiter = RateLimiter(rate)
    await limiter.acquire(1000, 1)
    with pytest.raises(Drained) if rate else nullcontext():
        await asyncio.wait_for(send(Stored(0, 0), limiter=limiter, ends=Drained("drained")), 5)
    assert state.progress.position == (0 if rate else 3)


async def test_a_range_that_ends_is_sent_within_the_limits(send: Send, state: QueueState) -> None:
    """To its end: nobody else would copy the rest of it."""
    limiter = RateLimiter(1000)
    await limiter.acquire(1100, 1)
    await send(Stored(0, 0), limiter=limiter, ends=SourceEnded("all of it"))
    assert state.progress.position == 3


@pytest.mark.parametrize(("late_before", "late"), [(0, 0), (2, 0), (3, 1)])
async def test_what_comes_late(send: Send, state: QueueState, late_before: int, late: int) -> None:
    """It was stored before the failover: at 2 in this case."""
    await send(Stored(0, 0), late_before=late_before)
    assert state.counters.late == late
    assert state.counters.anomalies().get("late", 0) == late


async def test_a_wait_is_logged_when_it_begins_and_when_it_ends(
    send: Send, state: QueueState, make_shared: Callable[..., Shared]
) -> None:
    """Once each, with the reason; not again while it lasts."""
    pair = QueuePair(state, make_shared(), topic="T", from_start=False)
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(TargetBlocked) as blocked:
                await send(BUSY, BUSY, takes=3.0)
            pair._fault = blocked.value
            pair._enter(Event.TARGET_BLOCKED, TRANSITIONS[Step.COPY, Event.TARGET_BLOCKED])
        assert state.phase is Phase.WAITING
        await send(Stored(0, 0))
    reason = str(blocked.value)
    assert [(each["event"], each["queue"], each.get("reason", each.get("waited_for"))) for each in logs] == [
        ("waiting", "T/a/0", reason),
        ("no longer waiting", "T/a/0", reason),
    ]
    assert (state.phase, state.reason) == (Phase.RUNNING, "")


@pytest.mark.parametrize("away", [None, Unreachable("b:10909", "connection refused")])
async def test_a_target_that_takes_nothing_is_insisted_on_for_two_seconds(
    monkeypatch: pytest.MonkeyPatch, state: QueueState, clock: Clock, away: Exception | None
) -> None:
    """By the clock: each attempt at a connection may take seconds, and meanwhile the queue holds memory of all."""
    target = Target(clock, *[BUSY] * 100, takes=0.9)
    target.away = away
    with pytest.raises(TargetBlocked):
        await send_to(target, monkeypatch, state)
    assert target.asked == 4
    assert clock.at == pytest.approx(0.9 + 3 * 0.9)


async def test_who_is_busy_for_long_is_asked_once_more(
    monkeypatch: pytest.MonkeyPatch, state: QueueState, clock: Clock
) -> None:
    """Over a slow line one attempt alone takes longer than two seconds."""
    target = Target(clock, BUSY, Stored(0, 0), takes=5.0)
    await send_to(target, monkeypatch, state)
    assert state.counters.copied == 1


async def test_the_pauses_of_a_busy_target_are_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, send: Send, state: QueueState
) -> None:
    """As the attempts themselves are."""
    monkeypatch.setattr(sink_task, "_FIRST_PAUSE", 0.1)
    await send(BUSY, Stored(0, 0))
    assert state.counters.target_wait > 0.04
    before = state.counters.target_wait
    await asyncio.sleep(0.01)
    assert state.counters.target_wait == before


@pytest.mark.parametrize(("topic", "sends"), [("T", 2), ("%RETRY%g", 1), ("%DLQ%g", 1)])
async def test_each_refusal_is_an_error(send: Send, state: QueueState, topic: str, sends: int) -> None:
    """Of a batch, and of the single send that is tried after it, or that there is only."""
    await send(*[ILLEGAL] * sends, topic=topic)
    assert state.counters.errors == {("message_rejected", "message_illegal"): sends}
    assert state.counters.skipped == {"error": 1}


async def test_a_dead_letter_that_is_refused_fails_the_queue(send: Send, state: QueueState) -> None:
    """As on_error=fail does, and says what both were refused for."""
    with pytest.raises(QueueFailed) as failed:
        await send(ILLEGAL, ILLEGAL, ILLEGAL, on_error="dead-letter")
    assert event_of(failed.value) is Event.FAILED
    assert "offset 0 of T/a/0" in str(failed.value)
    assert "dead letter" in str(failed.value)
    assert "on_error=skip" in failed.value.hint
    assert (state.progress.position, state.counters.skipped) == (0, {})


def odd_ones(_topic: str, _source: Queue, message: StoredMessage) -> StoredMessage | None:
    """A transform that leaves out the messages at even offsets."""
    return message if message.queue_offset % 2 else None


async def test_what_transforms_left_out_counts_once_though_the_answer_was_lost(
    send: Send, state: QueueState, make_shared: Callable[..., Shared]
) -> None:
    """What was before the last copy at the target when it was read; what is behind it comes again."""
    with pytest.raises(OutcomeUnknown):
        await send(Unreachable("b:10909", "closed by the peer"), offsets=range(5), transform=odd_ones)
    assert state.counters.skipped == {}
    state.progress.clean = True
    await check_of(state, make_shared(broker=Shown(copy_of(1), copy_of(3)))).run()
    assert (state.progress.position, state.counters.skipped) == (4, {"transform": 2})
    await send(offsets=[4], transform=odd_ones)
    assert (state.progress.position, state.counters.skipped) == (7, {"transform": 3})


async def test_what_transforms_left_out_counts_with_half_a_batch(send: Send, state: QueueState) -> None:
    """The target refuses a batch, takes its first half, and is busy then."""
    with pytest.raises(TargetBlocked):
        await send(ILLEGAL, Stored(0, 0), BUSY, BUSY, takes=3.0, offsets=range(5), transform=odd_ones)
    assert (state.progress.position, state.counters.skipped) == (3, {"transform": 2})


async def test_what_came_between_the_tail_and_the_first_batch_is_looked_at(send: Send, state: QueueState) -> None:
    """It may be what the last owner had under way, or another producer's: the batch itself is stored for sure."""
    state.progress.target_end = 5
    with pytest.raises(StoredElsewhere, match="target offsets 5 to 6"):
        await send(Stored(0, 7), suspicious=True)
    assert (state.progress.position, state.progress.target_end) == (0, 5)
    assert event_of(StoredElsewhere("")) is Event.STORED_ELSEWHERE
    await send(Stored(0, 7))
    assert (state.progress.position, state.progress.target_end) == (3, 8)
