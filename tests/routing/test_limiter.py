"""The rate limiter under a clock of its own: averages hold, and rates can be changed while someone waits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.limiter import RateLimiter

#: Seconds of credit that may pile up.
BURST = 0.1


class FakeLoop(asyncio.SelectorEventLoop):
    """Time passes at once when everybody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> Any:
            assert timeout is not None, "everybody waits for nothing"
            self.now += max(timeout, 1e-6)  # no clock stands still
            return select(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now


def run(work: Coroutine[Any, Any, float]) -> float:
    with asyncio.Runner(loop_factory=FakeLoop) as runner:
        return runner.run(work)


async def send(limiter: RateLimiter, batches: list[tuple[int, int]]) -> float:
    """Seconds that it takes to let them all through."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    for messages, size in batches:
        await limiter.acquire(messages, size)
    return loop.time() - start


BATCHES = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 5000)), min_size=1, max_size=40)


@given(BATCHES, st.integers(1, 300), st.sampled_from([0, 100, 3000]))
def test_the_average_holds(batches: list[tuple[int, int]], rate: int, size_rate: int) -> None:
    """All but the last batch are paid for, less the burst; and nobody waits longer than needed."""
    took = run(send(RateLimiter(rate, size_rate), batches))
    costs = [sum(messages for messages, _ in batches[:-1]) / rate]
    if size_rate:
        costs.append(sum(size for _, size in batches[:-1]) / size_rate)
    assert took >= max(costs) - BURST - 1e-6
    # When one dimension waits, the other's credit is lost beyond its burst.
    assert took <= sum(costs) + 1e-6


def test_without_limits_nobody_waits() -> None:
    """Not even after much was sent."""
    assert run(send(RateLimiter(), [(10**6, 10**9)] * 100)) == 0


def test_a_batch_larger_than_a_second_passes() -> None:
    """It goes into debt, and the next one waits for that."""
    assert run(send(RateLimiter(10), [(100, 1)])) == 0
    assert run(send(RateLimiter(10), [(100, 1), (1, 1)])) == pytest.approx(10, abs=BURST)


async def several(limiter: RateLimiter, count: int) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(limiter.acquire(10, 1))
    return loop.time() - start


def test_all_queues_together_keep_the_rate() -> None:
    """Those who wake at once do not all go at once."""
    assert run(several(RateLimiter(100), 51)) == pytest.approx(5, abs=BURST + 0.25)


async def changed(limiter: RateLimiter, messages: int, size: int) -> float:
    await limiter.acquire(1000, 1)
    loop = asyncio.get_running_loop()
    start = loop.time()
    waiting = asyncio.create_task(limiter.acquire(1, 1))
    await asyncio.sleep(1)
    assert not waiting.done()
    limiter.set(messages, size)
    await waiting
    return loop.time() - start


@pytest.mark.parametrize(("messages", "size"), [(0, 0), (10_000, 0), (0, 10_000)])
def test_whoever_waits_feels_a_new_rate(messages: int, size: int) -> None:
    """At its next look, a quarter of a second later at most; a long debt is forgiven."""
    limiter = RateLimiter(1)
    assert run(changed(limiter, messages, size)) <= 1.25
    assert (limiter.messages, limiter.size) == (messages, size)


def test_a_limit_set_after_a_long_time_without_one_holds() -> None:
    """No credit has piled up meanwhile beyond the burst."""

    async def later(limiter: RateLimiter) -> float:
        await send(limiter, [(1000, 1000)] * 10)
        await asyncio.sleep(3600)
        limiter.set(100, 0)
        return await send(limiter, [(100, 1)] * 4)

    assert run(later(RateLimiter())) == pytest.approx(3, abs=BURST)


def test_the_time_waited_is_counted() -> None:
    """As a metric shows it."""
    limiter = RateLimiter(10)
    took = run(send(limiter, [(10, 1)] * 4))
    assert limiter.throttled_seconds == pytest.approx(took)
    assert took > 2


def test_a_batch_costs_a_part_of_a_second() -> None:
    """Else 2,048 messages would go at once, and nothing for 20 seconds, where 100 may go in one."""
    assert RateLimiter().portion == (math.inf, math.inf)
    assert RateLimiter(100).portion == (25.0, math.inf)
    assert RateLimiter(0, 4000).portion == (math.inf, 1000.0)


def test_a_debt_takes_as_long_at_another_rate() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = RateLimiter(100)
        begun = loop.time()
        await limiter.acquire(25, 0)  # a quarter of a second, but for the burst
        limiter.set(10, 0)
        await limiter.acquire(1, 0)
        return loop.time() - begun

    assert run(work()) == pytest.approx(0.25 - BURST, abs=0.02)


def test_what_has_passed_is_counted_where_there_is_a_limit() -> None:
    async def work() -> float:
        limiter = RateLimiter(100_000)
        await limiter.acquire(3, 40)
        await limiter.acquire(4, 50)
        free = RateLimiter()
        await free.acquire(3, 40)
        assert (limiter.passed(), free.passed()) == ((7, 90), (0, 0))
        return 0.0

    run(work())
