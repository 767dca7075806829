"""Who looks while the metadata task waits for a broker that hangs gets what was known last."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.look import looking
from replicator.connector.sync import task as module
from replicator.connector.sync.plan import SyncPlan, as_it_was
from replicator.metadata.action import Unasked
from tests.connector.sync.conftest import KINDS, Setup

HUNG = {"h:1": "no answer within 4 s"}


def cluster(**addresses: str) -> Any:
    def reader(name: str) -> Any:
        return SimpleNamespace(address=addresses[name])

    return SimpleNamespace(is_proxy=False, brokers=lambda: [*addresses], reader=reader)


async def test_the_last_plan_says_how_old_it_is_and_who_hangs() -> None:
    others = [Unasked("topics", "other", "away"), Unasked("topics", "x", "late")]
    last = SyncPlan(["a step"], [{"group": "g"}], others, time.time() - 11.5)  # type: ignore[list-item]
    async with looking(HUNG):
        now = as_it_was(last, ["topics", "groups"], [cluster(y="h:2"), cluster(x="h:1")])
        never = as_it_was(None, ["topics"], [cluster(x="h:1")])
        gone = as_it_was(None, ["topics"], [cluster(y="h:2")])
    assert (now.steps, now.groups, now.at) == (last.steps, last.groups, last.at)
    hangs = "h:1 cannot be reached (no answer within 4 s)"
    assert [str(each) for each in now.unasked] == [
        f"topics at x: as seen 12 s ago, since {hangs}",
        f"groups at x: as seen 12 s ago, since {hangs}",
        "topics at other: away",
    ]
    assert [str(each) for each in never.unasked] == [f"topics at x: not looked at yet, since {hangs}"]
    assert [str(each) for each in gone.unasked] == ["topics: not looked at yet, since a broker does not answer"]
    assert (never.steps, never.groups) == ((), [])


async def test_who_looks_does_not_wait_for_the_task_beside_a_broker_that_hangs(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none hangs the task is busy, and ends: then it is waited for."""
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    for side in (setup.source, setup.target):
        monkeypatch.setattr(side, "is_proxy", True, raising=False)
    before = await setup.task.plan()
    assert before.unasked == []
    async with setup.task._lock:
        async with looking(HUNG):
            told = await setup.task.plan()
        assert (told.at, [each.kind for each in told.unasked]) == (before.at, [*KINDS])
        waiting = asyncio.create_task(setup.task.plan())
        await asyncio.sleep(0.05)
        assert not waiting.done()
    assert (await waiting).at > before.at
    async with looking(HUNG):
        assert (await setup.task.plan()).unasked == [], "nobody has it: it is a new one"
