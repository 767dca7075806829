"""Who is asked again in one look, and who is not."""

from __future__ import annotations

import asyncio

import pytest

from replicator.client.unresponsive import NotAskedAgain, UnresponsiveBrokers
from replicator.errors import BrokerRefused, Unreachable


async def test_a_broker_that_is_away_is_asked_once_by_many_at_the_same_time() -> None:
    brokers, asked = UnresponsiveBrokers({"known": "away before"}), []

    async def question() -> None:
        asked.append("b")
        await asyncio.sleep(0)
        raise Unreachable("b", "away")

    found = await asyncio.gather(*(brokers.ask("b", question) for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in found] == [Unreachable, *[NotAskedAgain] * 4]
    with pytest.raises(NotAskedAgain, match="away before"):
        await brokers.ask("known", question)
    assert asked == ["b"]


async def test_one_that_was_not_listened_to_has_not_answered() -> None:
    """Who asked was cancelled: others wait for the next one's answer."""
    brokers, asked = UnresponsiveBrokers({}), []

    async def hang() -> None:
        await asyncio.Event().wait()

    async def question() -> None:
        asked.append("b")
        await asyncio.sleep(0)
        raise Unreachable("b", "away")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await brokers.ask("b", hang)
    await asyncio.gather(*(brokers.ask("b", question) for _ in range(5)), return_exceptions=True)
    assert asked == ["b"]


async def test_one_that_has_answered_is_asked_by_many_at_once() -> None:
    """Also one that has refused what it was asked first."""
    brokers, waiting, most = UnresponsiveBrokers({}), 0, 0

    async def refused() -> None:
        raise BrokerRefused("b", 38, 16, "no")

    async def question() -> None:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.01)
        waiting -= 1

    with pytest.raises(BrokerRefused):
        await brokers.ask("b", refused)
    await asyncio.gather(*(brokers.ask("b", question) for _ in range(5)))
    assert most == 5
