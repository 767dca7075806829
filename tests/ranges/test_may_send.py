"""A task sends while its process was never suspended and its lease is held; a lease may come back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.ranges import copier, may_send
from replicator.ranges.may_send import MaySend


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a lost lease is looked at."""
    monkeypatch.setattr(may_send, "_POLL_INTERVAL", 0.01)


@pytest.mark.parametrize(
    ("awake", "lease", "may"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_both_are_needed(awake: bool, lease: bool, may: bool) -> None:
    assert MaySend(lambda: awake, lambda: lease)() is may
    assert MaySend(lambda: awake)() is awake


async def test_a_lease_that_was_lost_comes_back() -> None:
    """Once: what fails without a lease having been lost fails for another reason."""
    held = True
    check = MaySend(lambda: True, lambda: held)
    assert not await check.again(0, 0.0)
    held = False
    assert not check()
    again = asyncio.create_task(check.again(0, 30.0))
    await asyncio.sleep(0.05)
    assert not again.done()
    held = True
    assert await again
    assert check()
    assert not await check.again(check.losses, 0.0)


async def test_nobody_waits_for_a_lease_for_ever() -> None:
    """Nor at all where the process was suspended."""
    for awake, seconds in ((True, 0.05), (False, 30.0)):
        check = MaySend(lambda: awake, lambda: False)  # noqa: B023 - called at once
        assert not check()
        async with asyncio.timeout(5):
            assert not await check.again(0, seconds)


async def test_a_job_with_a_lease_looks_at_its_clock_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats that come again do not allow a task to send that has had a successor since."""
    awake = True

    class Guard:
        async def __aenter__(self) -> Any:
            return lambda: awake

        async def __aexit__(self, *_: object) -> None:
            pass

    class Held(Guard):
        async def __aenter__(self) -> Any:
            return lambda: True

    monkeypatch.setattr(copier, "awake", Guard)
    job: Any = SimpleNamespace(lease=SimpleNamespace(coordination="source", held=lambda _: Held()))
    source: Any = None
    async with copier._leased(job, source, 1.0) as check:
        assert check()
        awake = False
        assert not check()
