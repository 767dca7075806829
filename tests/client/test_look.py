"""A broker that hangs is not asked again in the look that has found it so."""

from __future__ import annotations

import asyncio

import pytest

from replicator.client.endpoint import Endpoint
from replicator.client.look import looking, meets_silence, silence_of
from replicator.client.security import Security
from replicator.errors import Unreachable


async def test_within_a_look_alone() -> None:
    """Also by tasks that it starts; not by those that live on, nor by anybody else."""
    let = asyncio.Event()

    async def later() -> tuple[str, str]:
        before = silence_of("h:1")
        await let.wait()
        return before, silence_of("h:1")

    other = asyncio.create_task(later())
    async with looking({"h:1": "no answer"}):
        own = asyncio.create_task(later())
        await asyncio.sleep(0)
        assert silence_of("h:1") == "no answer"
        assert silence_of("h:2") == ""
        assert meets_silence()
    let.set()
    assert await own == ("no answer", "")
    assert await other == ("", "")
    assert silence_of("h:1") == ""
    async with looking({}):
        assert not meets_silence()


async def test_it_costs_no_time() -> None:
    endpoint = Endpoint("127.0.0.1:1", Security())
    async with looking({endpoint.address: "no answer within 4 s"}):
        with pytest.raises(Unreachable, match=r"127.0.0.1:1 cannot be reached \(no answer within 4 s\)"):
            await endpoint.connection()
    assert not endpoint.failing, "nobody has knocked"
    await endpoint.close()
