"""Queues of a broker that does not answer keep those of no other broker from recovering."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from replicator.routing.recovery_slots import RecoverySlots


async def _enters(slots: RecoverySlots, side: str, broker: str) -> bool:
    """Whether one more is let in at once; it stays."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            return await slots.at(side, broker).acquire()  # type: ignore[arg-type]
    return False


@pytest.fixture
async def slots() -> RecoverySlots:
    """All of `a` at the target are taken."""
    slots = RecoverySlots()
    for _ in range(64):
        assert await _enters(slots, "target", "a")
    return slots


async def test_so_many_are_let_in_and_no_more(slots: RecoverySlots) -> None:
    assert not await _enters(slots, "target", "a")
    slots.at("target", "a").release()
    assert await _enters(slots, "target", "a")


@pytest.mark.parametrize(("side", "broker"), [("target", "b"), ("source", "a")])
async def test_others_are_not_in_the_way(slots: RecoverySlots, side: str, broker: str) -> None:
    """Both clusters may have a broker of that name."""
    assert await _enters(slots, side, broker)
