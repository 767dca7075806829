"""Logs: repeats are counted, the level can be changed, also for loggers that were bound before."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import get_args

import pytest
import structlog

from replicator.observe.log_rate_limiter import LogRateLimiter, Suppressed
from replicator.observe.logging import Level, configure, get_level, get_logger, set_level, tell_repeats


class Clock:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is logged, as JSON."""
    found = io.StringIO()
    monkeypatch.setattr("sys.stderr", found)
    configure(level="info", terminal=False)
    yield found
    tell_repeats(now=True)
    configure()


def _events(lines: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def _tries(repeats: LogRateLimiter, event: str, times: int) -> list[dict[str, object]]:
    through = []
    for number in range(times):
        try:
            through.append(dict(repeats(None, "warning", {"event": event, "number": number})))
        except structlog.DropEvent:
            continue
    return through


def test_the_first_repeats_of_a_period_stand_and_the_others_are_counted() -> None:
    """Each kind by itself; the next period's first event says how many were left out."""
    clock = Clock()
    repeats = LogRateLimiter(most=3, period=10.0, clock=clock)
    assert [event["number"] for event in _tries(repeats, "waiting", 8)] == [0, 1, 2]
    assert len(_tries(repeats, "other", 2)) == 2
    clock.now += 10
    (again,) = _tries(repeats, "waiting", 1)
    assert again["left_out"] == 5
    assert repeats.take() == []


def test_what_was_left_out_is_told_when_nothing_follows() -> None:
    """Once its period is over; or at the end, whatever the time."""
    clock = Clock()
    repeats = LogRateLimiter(most=3, period=10.0, clock=clock)
    _tries(repeats, "waiting", 8)
    assert repeats.take() == []
    clock.now += 12
    assert repeats.take() == [Suppressed("", "warning", "waiting", 5, 12.0)]
    assert repeats.take() == []
    _tries(repeats, "waiting", 4)
    assert repeats.take(now=True) == [Suppressed("", "warning", "waiting", 1, 0.0)]


def test_a_flood_is_short_and_complete(lines: io.StringIO) -> None:
    """A thousand queues that lose their broker at once are twenty lines and one that counts the others."""
    log = get_logger("replicator.routing.pair")
    for queue in range(1000):
        log.bind(queue=queue).warning("waiting", reason="broker away")
    tell_repeats(now=True)
    events = _events(lines)
    assert [event.get("queue") for event in events[:20]] == list(range(20))
    assert len(events) == 21
    assert (events[-1]["event"], events[-1]["times"], events[-1]["level"]) == ("waiting (more)", 980, "warning")


def test_the_level_changes_for_bound_loggers_too(lines: io.StringIO) -> None:
    """At each level that is in force, what is less severe is not logged."""
    bound = get_logger("replicator.x").bind(queue=1)
    levels = get_args(Level)
    for least in levels:
        set_level(least)
        assert get_level() == least
        for level in levels:
            getattr(bound, level)(f"{level} at {least}")
    logged = [event["event"] for event in _events(lines)]
    assert logged == [f"{level} at {least}" for i, least in enumerate(levels) for level in levels[i:]]


def test_exceptions_are_errors(lines: io.StringIO) -> None:
    """Whatever the level."""
    set_level("error")
    try:
        raise ValueError("why")
    except ValueError:
        get_logger("replicator.x").exception("failed")
    (event,) = _events(lines)
    assert event["level"] == "error"
    assert "ValueError: why" in str(event["exception"])
