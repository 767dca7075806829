"""A broker that takes connections and answers nothing: who asks about a failover is told so, and soon."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from replicator.sandbox import ClusterSpec
from tests.support import scene as usual
from tests.support.readiness import asked
from tests.support.scene import SceneOf
from tests.support.worker import Worker, until

#: Seconds for a dry run, which may wait for the metadata task, and for any other answer: the worker's own requests
#: to the broker, which others must not wait for, take ten.
_SOON = 20.0
_AT_ONCE = 7.5
#: Seconds for which it hangs at least: the metadata task meets it meanwhile, more than once.
_HANGS = 25.0


async def in_time(worker: Worker, method: str, what: str, how: Any = None, *, seconds: float) -> Any:
    begun = time.monotonic()
    found = await asked(worker, method, what, how)
    assert time.monotonic() - begun < seconds, (what, found)
    return found


@pytest.mark.parametrize("side", ["source", "target"])
async def test_readiness_and_a_dry_run_name_it(scene: SceneOf, side: str) -> None:
    """Each in seconds, also while the metadata task waits for it; once it goes on all is as before."""
    hung = ClusterSpec(name="hung", version="5.3.3")
    source, target = (hung, usual.TARGET) if side == "source" else (usual.SOURCE, hung)
    async with scene(source=source, target=target, mistreated=(hung,)) as route:
        (broker,) = (route.source if side == "source" else route.target).brokers
        name, is_gone = next(iter(route.target.brokers)).name, f"{broker.address} cannot be reached ("
        await route.produce(100)
        async with route.worker("--sync", "topics,groups,offsets") as worker:
            await worker.caught_up(route.topic, 100)
            broker.pause()
            hangs_until = time.monotonic() + _HANGS
            try:
                found = await in_time(worker, "POST", "failover", {"dry_run": True}, seconds=_SOON)
                assert is_gone in str(found), found
                while time.monotonic() < hangs_until:
                    ready = await in_time(worker, "GET", "readiness", seconds=_AT_ONCE)
                    assert is_gone in str(ready["reasons"]), ready
                    assert f"topic {route.topic} at {name} is missing" not in ready["reasons"]
                    plan = await in_time(worker, "GET", "plan", seconds=_AT_ONCE)
                    assert is_gone in str(plan), plan
                    begun = time.monotonic()
                    _, overview = await asyncio.to_thread(worker.ask, "GET", "/overview")
                    assert time.monotonic() - begun < _AT_ONCE
                    (connector,) = overview["connectors"]
                    assert connector["safe"] != "yes", overview
                    assert connector["checked_at"] is None or overview["at"] - connector["checked_at"] < _HANGS
            finally:
                broker.resume()
            await until(lambda: worker.ask("GET", "/connectors/route/readiness")[1]["ready"])
        await route.assert_clean(100)
