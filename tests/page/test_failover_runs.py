"""Failovers that were started on the page: one at a time, with their steps, and an end whatever happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from replicator.admin.failover import FailoverOptions
from replicator.admin.failover_turn import NotNow
from replicator.errors import Unreachable
from replicator.observe.logging import get_logger
from replicator.page.failover_runs import FailoverRun, FailoverRuns
from tests.support.worker import until

HOW = FailoverOptions(drain_timeout=1.0)
log = get_logger("replicator.canary")


async def nothing() -> dict[str, Any]:
    return {}


async def ended(run: FailoverRun) -> FailoverRun:
    await until(lambda: not run.going_on, seconds=10)
    return run


async def test_steps_are_what_was_logged_of_the_connector_meanwhile() -> None:
    runs, go_on = FailoverRuns(), asyncio.Event()
    log.info("before", connector="route")

    async def fail_over() -> dict[str, Any]:
        log.info("first step", connector="route")
        log.info("of another", connector="other")
        await go_on.wait()
        log.info("last step", connector="route")
        return {"drained": True}

    run = runs.start("route", HOW, "page 1.2.3.4 (operate)", fail_over)
    await asyncio.sleep(0.01)
    assert [step.event for step in runs.of("route")[0].steps] == ["first step"]
    with pytest.raises(NotNow, match="going on already"):
        runs.start("route", HOW, "another", fail_over)
    other = runs.start("other", HOW, "another", nothing)
    assert other.id != run.id
    go_on.set()
    await ended(run)
    assert [step.event for step in run.steps] == ["first step", "last step"]
    assert {step.actor for step in run.steps} == {"page 1.2.3.4 (operate)"}
    assert runs.get(run.id) is run
    assert runs.get(99) is None
    log.info("after", connector="route")
    assert len(runs.of("route")[0].steps) == 2


async def test_a_run_that_fails_says_why_and_another_may_start() -> None:
    runs = FailoverRuns()

    async def away() -> dict[str, Any]:
        raise Unreachable("127.0.0.1:1", "refused")

    run = await ended(runs.start("route", HOW, "page", away))
    assert run.problem is not None
    assert "127.0.0.1:1 cannot be reached" in run.problem.message
    assert run.steps[-1].event == "failover has failed"

    async def endless() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    run = runs.start("route", HOW, "page", endless)
    await asyncio.sleep(0.01)
    (task,) = runs._tasks
    task.cancel()
    await ended(run)
    assert run.problem is not None
    assert run.problem.message == "the worker has ended meanwhile"

    async def broken() -> dict[str, Any]:
        raise LookupError("a bug")

    run = await ended(runs.start("route", HOW, "page", broken))
    assert run.problem is not None
    assert run.problem.hint.startswith("this is a bug")


async def test_a_run_that_goes_on_is_not_forgotten() -> None:
    """However many have ended since: its steps are looked at, and no second one starts beside it."""
    runs, go_on = FailoverRuns(), asyncio.Event()

    async def waits() -> dict[str, Any]:
        await go_on.wait()
        return {}

    first = runs.start("route", HOW, "page", waits)
    for _ in range(30):
        await ended(runs.start("other", HOW, "page", nothing))
    assert runs.of("route") == [first]
    with pytest.raises(NotNow, match="going on already"):
        runs.start("route", HOW, "another", nothing)
    assert len(runs.of("other")) <= 21
    go_on.set()
    await ended(first)
