"""Periodic work: what operators read of it, and how it ends."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, tzinfo
from typing import Any

import pytest
from apscheduler.schedulers import base
from structlog.testing import capture_logs

from replicator.aio.schedule import Schedule
from tests.support.worker import until


async def test_late_work_is_logged_once_and_when_it_keeps_its_interval_again() -> None:
    """By its name, however many starts it misses; APScheduler itself says nothing."""
    schedule, going_on = Schedule(), asyncio.Event()
    runs: list[bool] = []

    async def slow() -> None:
        runs.append(going_on.is_set())
        await going_on.wait()

    with capture_logs() as logs:
        schedule.every(0.01, slow, name="target probe")
        schedule.start()
        await until(lambda: logs)
        await asyncio.sleep(0.1)
        going_on.set()
        await until(lambda: len(logs) > 1)
        await schedule.end()
    assert runs.count(False) == 1
    assert logs[0]["because"] == "it waits for answers, this worker is not busy"
    assert [(each["log_level"], each["event"], each["work"]) for each in logs[:2]] == [
        ("warning", "periodic work takes longer than its interval", "target probe"),
        ("info", "periodic work keeps its interval again", "target probe"),
    ]


async def test_a_worker_with_too_much_to_do_is_told_from_one_that_waits() -> None:
    """By how late its loop is: what helps is another thing."""
    schedule = Schedule()

    async def heavy() -> None:
        time.sleep(0.9)  # noqa: ASYNC251 - it is what a loop that has too much to do is like
        await asyncio.sleep(0.1)

    with capture_logs() as logs:
        schedule.every(0.5, heavy, name="state flush")
        schedule.start()
        await until(lambda: logs)
        await schedule.end()
    assert logs[0]["because"] == "this worker is busy"


async def test_work_that_fails_is_done_again() -> None:
    """And its failure is logged with the traceback."""
    schedule = Schedule()
    runs: list[None] = []

    async def failing() -> None:
        runs.append(None)
        if len(runs) == 1:
            raise ValueError("no such thing")

    with capture_logs() as logs:
        schedule.every(0.01, failing, name="state flush")
        schedule.start()
        await until(lambda: len(runs) > 1)
        await schedule.end()
    failures = [each for each in logs if each["event"] == "periodic work failed"]
    assert [(each["log_level"], each["work"], each["exc_info"]) for each in failures] == [
        ("error", "state flush", True)
    ]


async def test_running_work_may_finish_at_the_end() -> None:
    """And nothing starts after it."""
    schedule, begun = Schedule(), asyncio.Event()
    done: list[None] = []

    async def slow() -> None:
        begun.set()
        await asyncio.sleep(0.05)
        done.append(None)

    schedule.every(0.01, slow, name="state flush")
    schedule.start()
    await begun.wait()
    await schedule.end()
    assert len(done) == 1
    await asyncio.sleep(0.1)
    assert len(done) == 1


async def test_it_may_be_ended_twice_at_once() -> None:
    """As when a lease is lost again while the work of the first time is still being finished."""
    schedule, going_on, begun = Schedule(), asyncio.Event(), asyncio.Event()
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))

    async def slow() -> None:
        begun.set()
        await going_on.wait()

    schedule.every(0.01, slow, name="slow")
    schedule.start()
    await begun.wait()
    ends = [asyncio.create_task(schedule.end()) for _ in range(2)]
    await asyncio.sleep(0)
    going_on.set()
    await asyncio.gather(*ends)
    await asyncio.sleep(0)
    assert failures == []


async def test_the_wall_clock_may_be_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats go on, and leases with them."""
    schedule = Schedule()
    runs: list[None] = []

    class SetBack(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(time.time() - 3600, tz)

    async def beat() -> None:
        runs.append(None)

    schedule.every(0.01, beat, name="heartbeat")
    schedule.start()
    await until(lambda: runs)
    monkeypatch.setattr(base, "datetime", SetBack)
    runs.clear()
    await until(lambda: len(runs) > 5)
    await schedule.end()
