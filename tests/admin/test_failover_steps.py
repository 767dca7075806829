"""A failover that takes long says that it goes on, and at what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from replicator.admin import failover_steps, running_tasks, topic_lag
from replicator.admin.failover_steps import Steps
from tests.admin.failover_setup import Setup
from tests.support.worker import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_steps, "_CHECK", 0.001)
    monkeypatch.setattr(failover_steps, "_SILENCE", 0.01)


async def test_a_step_is_told_again_while_it_lasts() -> None:
    """A source that is dead costs time-outs, in which nobody would know whether anything goes on."""
    steps = Steps("route")
    with capture_logs() as logs:
        async with steps.shown():
            steps.begin("failover hands over", kind="offsets")
            await until(lambda: len(logs) >= 3, what="it is told twice more")
        ended = len(logs)
        await asyncio.sleep(0.05)
    assert len(logs) == ended, "nothing is told of what is over"
    assert [logs[0][name] for name in ("event", "connector", "kind")] == ["failover hands over", "route", "offsets"]
    assert {(each["event"], each["connector"], each["step"]) for each in logs[1:]} == {
        ("failover goes on", "route", "failover hands over")
    }


async def test_what_is_told_often_enough_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps with news of their own, such as how many messages are still missing."""
    monkeypatch.setattr(failover_steps, "_SILENCE", 5.0)
    steps = Steps("route")
    with capture_logs() as logs:
        async with steps.shown():
            for messages in range(20, 0, -1):
                steps.begin("failover waits for messages", messages=messages)
                await asyncio.sleep(0.002)
    assert [each["event"] for each in logs] == ["failover waits for messages"] * 20


async def test_a_dry_run_is_silent() -> None:
    steps = Steps("route", dry_run=True)
    with capture_logs() as logs:
        async with steps.shown():
            steps.begin("failover hands over", kind="offsets")
            await asyncio.sleep(0.05)
    assert logs == []


async def test_each_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the connector's name, or no command that waits shows them. A dry run has none."""
    setup = Setup()
    monkeypatch.setattr(topic_lag, "max_offset", setup.end)
    monkeypatch.setattr(topic_lag, "min_offset", setup.end)
    monkeypatch.setattr(running_tasks, "_SECONDS", 0.01)
    monkeypatch.setattr(failover_steps, "_SILENCE", 60.0)

    async def hand_over(*, begins: Callable[[str], None], **_how: Any) -> tuple[list[Any], list[str]]:
        begins("offsets")
        return [], []

    setup.sync.hand_over = hand_over
    with capture_logs() as logs:
        await setup.switch(source_dead=True)
    told = [entry for entry in logs if entry["event"].startswith("failover ")]
    assert {entry["connector"] for entry in told} == {"route"}
    assert [entry["event"] for entry in told] == [
        "failover begins",
        "failover stops the connector",
        "failover looks for what the target lacks",
        "failover writes offsets and opens topics",
        "failover hands over",
        "failover looks where groups stand, and what waits",
        "failover tells the group that the next one may begin",
    ]
    setup.sync.hand_over = AsyncMock(return_value=([], []))
    with capture_logs() as logs:
        await setup.switch(dry_run=True)
    assert [entry["event"] for entry in logs if entry["event"].startswith("failover ")] == []
