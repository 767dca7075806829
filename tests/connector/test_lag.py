"""The lag of queues that are not pulled: each broker is asked, whatever others do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector import lag
from replicator.errors import ProtocolError, Unreachable
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState


def _state(broker: str, queue: int, phase: Phase = Phase.WAITING) -> QueueState:
    state = QueueState("T", Queue(broker, queue), Queue("x", queue))
    state.progress.position, state.progress.max_offset = 5, 7
    state.set_phase(phase)
    return state


async def test_a_broker_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queues keep what is known; those of others, and of brokers that are known no more, are their own."""
    asked: list[tuple[str, int]] = []

    async def end(broker: str, _topic: str, queue: int) -> int:
        asked.append((broker, queue))
        if broker == "silent":
            raise Unreachable(broker, "no answer")
        if broker == "odd":
            raise ProtocolError("answer with code 0: field offset is None, not a number")
        return 100 + queue

    def reader(broker: str) -> str:
        if broker == "forgotten":
            raise Unreachable(broker, "the name servers do not know it")
        return broker

    monkeypatch.setattr(lag, "max_offset", end)
    source: Any = SimpleNamespace(reader=reader)
    states = [_state(broker, queue) for queue in range(50) for broker in ("silent", "forgotten", "odd", "well")]
    elsewhere = [_state("well", 90 + at, phase) for at, phase in enumerate((Phase.RUNNING, Phase.STOPPED))]
    await lag.sample_lags(source, [*states, *elsewhere])
    assert [each for each in asked if each[0] == "silent"] == [("silent", 0)]
    assert [state.progress.max_offset for state in states[3::4]] == [100 + queue for queue in range(50)]
    assert {state.progress.max_offset for state in (*states[0::4], *states[1::4], *states[2::4], *elsewhere)} == {7}
