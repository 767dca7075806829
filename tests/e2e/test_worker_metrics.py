"""What an operator sees of one worker while it runs: figures that agree, and as much log as wanted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from replicator.observe.catalogue import PREFIX
from tests.support.printed import check_printed
from tests.support.scene import TARGET, SceneOf
from tests.support.worker import Worker, until

#: Seconds without a message.
QUIET = 5.0
LABELS = {"source", "target", "connector", "topic"}


def _metrics(worker: Worker, topic: str) -> dict[str, float]:
    """The metrics of a topic that have one value, by their names."""
    families = text_string_to_metric_families(worker.get("/metrics"))
    return {
        sample.name.removeprefix(PREFIX): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("topic") == topic and sample.labels.keys() == LABELS
    }


def _lag(worker: Worker, topic: str) -> dict[str, Any]:
    """What `replicator lag` says of a topic."""
    asked = ("lag", "--output", "json")
    told = subprocess.run(
        [sys.executable, "-m", "replicator", *asked],
        env={**os.environ, "REPLICATOR_URL": f"http://127.0.0.1:{worker.port}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    check_printed(asked, told.stdout)
    (found,) = [each for each in json.loads(told.stdout)["route"] if each["topic"] == topic]
    return dict(found)


async def test_the_terminal_and_the_metrics_say_the_same(scene: SceneOf) -> None:
    """Of a lag behind a target that does not answer, after a quiet time: as old as the lag, not as the quiet."""
    async with scene(mistreated=(TARGET,), queues=2) as route, route.worker() as worker:
        await route.produce(50)
        await worker.caught_up(route.topic, 50)
        caught_up = _metrics(worker, route.topic)
        assert caught_up["messages_replicated_total"] == 50
        assert (caught_up["lag_messages"], caught_up["lag_seconds"], caught_up["in_flight_messages"]) == (0, 0, 0)
        await asyncio.sleep(QUIET)
        assert _metrics(worker, route.topic)["source_wait_seconds_total"] > QUIET
        route.target.brokers[0].pause()
        try:
            begun = time.time()
            await route.produce(20, start=50)
            await until(lambda: _metrics(worker, route.topic)["lag_messages"] == 20)
            lagging = await until(lambda: (found := _lag(worker, route.topic))["lag_messages"] == 20 and found)
            assert lagging["copied"] == 50
            assert 0 < lagging["lag_seconds"] <= time.time() - begun
            seen = _metrics(worker, route.topic)
            assert seen["lag_seconds"] <= time.time() - begun
            assert seen["in_flight_messages"] == 20
            assert seen["target_wait_seconds_total"] > caught_up["target_wait_seconds_total"]
        finally:
            route.target.brokers[0].resume()
        await worker.caught_up(route.topic, 70)


async def test_the_level_of_the_log_is_changed_while_it_runs(scene: SceneOf) -> None:
    """Of queues that begin before and after; and what is not a level is refused."""
    async with scene(queues=1) as route, route.worker() as worker:
        await route.produce(5)
        await worker.caught_up(route.topic, 5)
        assert '"level": "debug"' not in worker.log
        assert worker.ask("GET", "/log/level") == (200, {"level": "info"})
        assert worker.ask("PUT", "/log/level", {"level": "debug"}) == (200, {"level": "debug"})
        await until(lambda: '"event": "heartbeat"' in worker.log)
        status, refused = worker.ask("PUT", "/log/level", {"level": "chatty"})
        assert status == 400
        assert "give debug, info, warning or error" in str(refused)
        assert worker.ask("PUT", "/log/level", {"level": "warning"})[0] == 200
        last = worker.events
        assert [each["level"] for each in last if each["event"] == "log level changed"] == ["warning", "warning"]
