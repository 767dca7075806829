"""When tasks may start: what was read counts at once, silence and refusals only once they have lasted."""

from __future__ import annotations

import pytest

from replicator.errors import BrokerRefused, StartupError, Unreachable
from replicator.group.start_gate import StartGate

DENIED = BrokerRefused("b", 310, 16, "no permission")


@pytest.fixture
def gate() -> StartGate:
    """That of a worker with a session timeout of 5 s, whose target was first tried at 100 s."""
    gate = StartGate(5.0)
    assert not gate.is_open(1e9, was_read=False)
    gate.news(100.0)
    return gate


def test_what_was_read_opens_it_for_good(gate: StartGate) -> None:
    assert not gate.is_open(100.0, was_read=False)
    assert gate.is_open(101.0, was_read=True)
    gate.news(102.0)
    gate.failed(DENIED, 102.0)
    assert gate.is_open(103.0, was_read=False)


def test_silence_opens_it_after_some_session_timeouts(gate: StartGate) -> None:
    """From the last news on: over a poor line it takes minutes to read everything."""
    gate.news(115.0)
    assert not gate.is_open(135.0, was_read=False)
    assert gate.is_open(135.1, was_read=False)


def test_other_failures_are_not_refusals(gate: StartGate) -> None:
    """A right may also be the cause of an error."""
    for failure in (Unreachable("b", "down"), BrokerRefused("b", 310, 14, "the disk is full"), StartupError("no")):
        gate.failed(failure, 101.0)
    assert not gate.is_refused
    error = StartupError("no system topics")
    error.__cause__ = DENIED
    gate.failed(error, 101.0)
    assert gate.is_refused


def test_a_refusal_opens_it_once_it_has_lasted(gate: StartGate) -> None:
    """From the first one on, unless something was written since."""
    gate.failed(DENIED, 101.0)
    gate.failed(DENIED, 105.0)
    assert gate.is_refused
    assert not gate.is_open(106.0, was_read=False)
    gate.written()
    assert not gate.is_refused
    gate.failed(DENIED, 107.0)
    assert not gate.is_open(112.0, was_read=False)
    assert gate.is_open(112.1, was_read=False)
