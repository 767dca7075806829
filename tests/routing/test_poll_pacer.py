"""Long polls of a busy worker wait, no longer than a quarter of a second, and in their order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import count

import pytest

from replicator.routing import poll_pacer
from replicator.routing.poll_pacer import PollPacer
from tests.support.worker import until


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_pacer, "_EVERY", 4)


async def made_busy(pacer: PollPacer, numbers: Iterator[int], made: list[int]) -> None:
    """The loop is late by more than it may, for as long as it takes to be noticed."""
    async with asyncio.timeout(20):
        while not pacer.wait:
            for number in (next(numbers) for _ in range(4)):
                pacer.make(lambda number=number: made.append(number))  # type: ignore[misc]
            time.sleep(0.05)  # noqa: ASYNC251 - that is what keeps it busy
            await asyncio.sleep(0)


async def test_who_keeps_up_polls_at_once() -> None:
    pacer, made = PollPacer(), list[int]()
    for number in range(100):
        pacer.make(lambda number=number: made.append(number))  # type: ignore[misc]
        await asyncio.sleep(0)
    assert (pacer.wait, made) == (0.0, [*range(100)])


async def test_polls_of_a_busy_worker_wait_until_it_keeps_up_again() -> None:
    """None is lost, and none overtakes another."""
    pacer, made, numbers = PollPacer(), list[int](), count()
    await made_busy(pacer, numbers, made)
    for number in (next(numbers) for _ in range(10)):
        pacer.make(lambda number=number: made.append(number))  # type: ignore[misc]
    last = number
    assert last not in made
    await until(lambda: not pacer.wait and last in made, what="it keeps up")
    assert made == [*range(last + 1)]
    pacer.make(lambda: made.append(-1))
    assert made[-1] == -1


async def test_no_poll_waits_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_pacer, "_UP", 1.0)
    pacer, made = PollPacer(), list[int]()
    await made_busy(pacer, count(), made)
    assert pacer.wait == 0.25
