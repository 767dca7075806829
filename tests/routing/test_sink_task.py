"""What a sink task says of a target that takes nothing for a moment, or for longer."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from replicator.client.line_window import LineWindow
from replicator.client.send import Stored
from replicator.errors import BrokerRefused
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.routing import sink_task
from replicator.routing.batcher import Batcher
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Chunk
from replicator.routing.faults import TargetBlocked
from replicator.routing.limiter import RateLimiter
from replicator.routing.packing import Packer
from replicator.routing.pair import QueuePair
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import Seen
from replicator.routing.queue_steps import TRANSITIONS, Event, Step
from replicator.routing.shared import Shared
from replicator.routing.sink_task import SinkTask
from replicator.routing.state import Phase, QueueState

BUSY = BrokerRefused("b", 0, Response.SYSTEM_BUSY, "too many requests")


@pytest.fixture
def state() -> QueueState:
    """Of a queue that runs."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0), route="route")
    state.set_phase(Phase.RUNNING)
    state.progress.position = 0
    return state


async def send(
    monkeypatch: pytest.MonkeyPatch, state: QueueState, *answers: Exception | Stored, late_before: int = 0
) -> None:
    """Has one message sent to a target that gives these answers, one after the other; two after it are left out."""
    left = iter(answers)

    async def send_batch(*_request: object) -> Stored:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    over = cast("Any", SimpleNamespace(line=LineWindow(lambda: 0.0)))

    async def connection() -> Any:
        return over

    monkeypatch.setattr(sink_task, "send_batch", send_batch)
    monkeypatch.setattr(sink_task, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(sink_task, "_ATTEMPTS", 2)
    packer = Packer(Stamp("east", "a", 0), topic="T", limit=10**6, max_messages=10, exact_born=False)
    budget = MemoryBudget(10**6)
    channel = Channel(budget, packer)
    budget.charge(10)
    message = StoredMessage(0, 0, 0, 1, 2, 0, 3, b"\0\0\0\1x", b"")
    channel.put(Chunk([message], 3, 10, copies=False, last_stored=99))
    task = SinkTask(
        cast("Any", SimpleNamespace(connection=connection, address="b:10909")),
        over,
        channel,
        Batcher(channel, packer),
        topic="T",
        state=state,
        options=cast("Any", SimpleNamespace(sealer=None, late_before=late_before)),
        limiter=RateLimiter(0, 0),
        dead_letters=cast("Any", None),
        on_taken=lambda: None,
        on_shift=lambda _first, _end: None,
        suspicious=False,
        may_send=lambda: True,
    )
    await task.flush()


async def test_a_short_pause_of_the_target_is_no_news(monkeypatch: pytest.MonkeyPatch, state: QueueState) -> None:
    """It is counted; the queue never waited, so it does not stop waiting either."""
    with capture_logs() as logs:
        await send(monkeypatch, state, BUSY, Stored(0, 0))
    assert logs == []
    assert (state.phase, state.reason) == (Phase.RUNNING, "")
    assert (state.progress.position, state.progress.seen) == (3, Seen(2, 99))
    assert state.counters.retries == 1


@pytest.mark.parametrize(("late_before", "late"), [(0, 0), (2, 0), (3, 1)])
async def test_what_comes_late(
    monkeypatch: pytest.MonkeyPatch, state: QueueState, late_before: int, late: int
) -> None:
    """It was stored before the failover: at 2 in this case."""
    await send(monkeypatch, state, Stored(0, 0), late_before=late_before)
    assert state.counters.late == late
    assert state.counters.anomalies().get("late", 0) == late


async def test_a_wait_is_logged_when_it_begins_and_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, state: QueueState, make_shared: Callable[..., Shared]
) -> None:
    """Once each, with the reason; not again while it lasts."""
    pair = QueuePair(state, make_shared(), topic="T", from_start=False)
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(TargetBlocked) as blocked:
                await send(monkeypatch, state, BUSY, BUSY)
            pair._fault = blocked.value
            pair._enter(Event.TARGET_BLOCKED, TRANSITIONS[Step.COPY, Event.TARGET_BLOCKED])
        assert state.phase is Phase.WAITING
        await send(monkeypatch, state, Stored(0, 0))
    reason = str(blocked.value)
    assert [(each["event"], each["queue"], each.get("reason", each.get("waited_for"))) for each in logs] == [
        ("waiting", "T/a/0", reason),
        ("no longer waiting", "T/a/0", reason),
    ]
    assert (state.phase, state.reason) == (Phase.RUNNING, "")
