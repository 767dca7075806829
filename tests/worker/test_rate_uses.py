"""What a worker says that it has used of the rate limits."""

from __future__ import annotations

import asyncio

import pytest

from replicator.routing.limiter import RateLimiter
from replicator.worker import rate_uses
from replicator.worker.rate_uses import RateUses


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [100.0]
    monkeypatch.setattr(rate_uses, "now", lambda: time[0])
    return time


async def test_what_passed_since_the_last_time(clock: list[float]) -> None:
    limiter, uses = RateLimiter(1000), RateUses()
    assert uses.since_last({"a": limiter}) == {}  # for how long is not known
    await limiter.acquire(500, 70)
    clock[0] += 5
    assert uses.since_last({"a": limiter}) == {"a": {"messages": 100, "size": 14, "waited": False}}
    clock[0] += 5
    limiter.throttled_seconds += 4
    assert uses.since_last({"a": limiter}) == {"a": {"messages": 0, "size": 0, "waited": True}}


async def test_without_limits_nothing_is_said(clock: list[float]) -> None:
    limiter, uses = RateLimiter(), RateUses()
    for _ in range(2):
        clock[0] += 5
        assert uses.since_last({"a": limiter}) == {}
        await asyncio.sleep(0)


async def test_one_that_was_made_again_begins_at_nothing(clock: list[float]) -> None:
    before, uses = RateLimiter(1000), RateUses()
    await before.acquire(500, 70)
    uses.since_last({"a": before})
    clock[0] += 5
    assert uses.since_last({"a": RateLimiter(1000)})["a"]["messages"] == 0
