"""A route that stands is seen: paused or stopped, it keeps its lag, its series and its place in every list."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from tests.support.alerts import fires, rests, watching
from tests.support.command import run
from tests.support.readiness import health
from tests.support.scene import Scene, SceneOf
from tests.support.worker import Worker, until

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(300)]


def seen(worker: Worker, topic: str) -> tuple[Any, ...]:
    """The topic in the group's list: state, queues, lag, and how many were copied since the route began."""
    _, listed = worker.ask("GET", "/connectors/list")
    (found,) = [t for t in listed["route"]["status"]["topics"] if t["topic"] == topic]
    return found["state"], found["queues"], found["lag_messages"], found["copied"]


def ready(worker: Worker) -> bool:
    return health(worker)[0] == 200


async def test_a_paused_and_a_stopped_route_keep_their_lag(scene: SceneOf) -> None:
    """At either of two workers, also after a restart of one; nothing is counted twice."""
    async with scene(queues=3) as here:
        await here.produce(90)
        async with here.worker(at="a") as first, here.worker(at="b") as second:
            await shows(first, here.topic, "RUNNING", 3, 0, 90)
            assert health(first)[0] == 200
            for verb, state, behind in (("pause", "PAUSED", 30), ("stop", "STOPPED", 60)):
                assert first.ask("PUT", f"/connectors/route/{verb}")[0] == 200
                await here.produce(30, start=60 + behind)
                for worker in (first, second):
                    await shows(worker, here.topic, state, 3, behind, 90)
                    status, reasons = health(worker)
                    assert status == 503
                    assert reasons["route"] == f"the connector is {state.lower()}: resume it to copy again"
                assert sum(w.metric("lag_messages") for w in (first, second)) == behind
                shown = await run(second, "lag")
                assert here.topic in shown
                assert state in shown
                assert f" {behind} " in await run(first, "connectors", "list")
            await _keeps_it_over_a_restart(here, first, second)
            assert second.ask("PUT", "/connectors/route/resume")[0] == 200
            for worker in (first, second):
                await shows(worker, here.topic, "RUNNING", 3, 0, 150)
                await until(partial(ready, worker))
        await here.assert_clean(150)


async def test_after_a_pause_the_lag_is_what_it_was(scene: SceneOf) -> None:
    """At each moment, and at either of two workers: not nothing, nor twice as much."""
    async with scene() as here:
        await here.produce(2000)
        flags = ("--rate-messages", "20")
        async with here.worker(*flags, at="a") as first, here.worker(*flags, at="b") as second:
            await until(lambda: overview(first)["copied"] > 30, what="it copies")
            before = overview(first)["lag_messages"]
            assert first.ask("PUT", "/connectors/route/pause")[0] == 200
            seen_at = time.monotonic()
            while time.monotonic() - seen_at < 8.0:
                for worker in (first, second):
                    now = await asyncio.to_thread(overview, worker)
                    assert now["topics"] == 1, now
                    assert before - 250 <= now["lag_messages"] <= before, (before, now)
                await asyncio.sleep(0.05)


def overview(worker: Worker) -> dict[str, Any]:
    (found,) = worker.ask("GET", "/overview")[1]["connectors"] or [{"copied": 0, "lag_messages": 0}]
    return dict(found)


async def shows(worker: Worker, topic: str, *what: Any) -> None:
    """Waits until it says so."""
    await until(lambda: seen(worker, topic) == what, what=str(what))


async def _keeps_it_over_a_restart(here: Scene, first: Worker, second: Worker) -> None:
    """Whoever is left, or comes back, looks at the source."""
    assert await first.drain() == 0
    await shows(second, here.topic, "STOPPED", 3, 60, 90)
    await first.start()
    await shows(first, here.topic, "STOPPED", 3, 60, 90)


async def test_the_age_of_what_a_paused_route_lacks(scene: SceneOf) -> None:
    """Of the oldest message that the target lacks, not of the newest that it has."""
    async with scene(queues=1) as here, here.worker() as worker:
        await here.produce(10)
        await worker.caught_up(here.topic, 10)
        assert worker.ask("PUT", "/connectors/route/pause")[0] == 200
        await asyncio.sleep(2)  # this is what is measured
        await here.produce(1, start=10)
        await until(lambda: worker.topic(here.topic).get("lag_messages") == 1)
        assert 0 < worker.topic(here.topic)["lag_seconds"] < 2


async def test_an_alert_of_a_pause_that_was_forgotten(scene: SceneOf, tmp_path: Any) -> None:
    """It fires after an hour, rests once the route is resumed, and no other alert calls for what is wanted."""
    async with scene(queues=1) as here, here.worker() as worker:
        await here.produce(10)
        await worker.caught_up(here.topic, 10)
        async with watching(tmp_path / "prometheus", [worker]) as prometheus:
            assert worker.ask("PUT", "/connectors/route/pause")[0] == 200
            await here.produce(1, start=10)
            await fires(prometheus, "RouteHalted")
            assert "ReplicatorNothingCopied" not in prometheus.firing()
            assert worker.ask("PUT", "/connectors/route/resume")[0] == 200
            await rests(prometheus, "RouteHalted")
            assert "ReplicatorTopicGone" not in prometheus.fired()
