"""`--workers 2`: two worker processes share the topics; one that is killed is started again, and both drain."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST
from tests.support.traffic import create_topic, judge, produce
from tests.support.worker import Worker, until


async def test_two_processes_share_the_work(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Each with tasks, a port and a state directory of its own."""
    source, target = await clusters.pair(EAST, WEST)
    topics = [topic_name("a"), topic_name("b")]
    for topic in topics:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, 200)
    worker = Worker(source, target, tmp_path / "w", "--topics", ",".join(topics), "--workers", "2")

    def workers() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = worker.ask("GET", "/getClusterInfo")[1]["workers"]
        return found

    def is_shared() -> bool:
        return len(workers()) == 2 and all(each["tasks"] for each in workers())

    async with worker:
        await until(lambda: _port(worker, 1) and _port(worker, 2))
        worker.port = _port(worker, 1)  # the other one is killed
        await until(is_shared)
        for topic in topics:
            await produce(source, topic, 200, start=200)
        first, second = _children(worker.pid)
        before = _port(worker, 2)
        os.kill(second, signal.SIGKILL)
        for topic in topics:
            await produce(source, topic, 200, start=400)
        await until(lambda: _port(worker, 2) != before)
        await until(is_shared)

        async def is_copied() -> bool:
            return all([(await judge(source, target, topic)).copies == 600 for topic in topics])

        await until(is_copied)
        assert first in _children(worker.pid)
        assert second not in _children(worker.pid)
        assert await worker.drain() == 0
        assert worker.log.count('"event": "drained"') == 2
        assert {event["process"] for event in worker.events if event["event"] == "drained"} == {1, 2}
    assert {path.name for path in worker.store.parent.iterdir()} >= {worker.store.name, f"{worker.store.name}-2"}
    for topic in topics:
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()


def _port(worker: Worker, process: int) -> int:
    """Where a worker process serves REST; 0 before it does."""
    ready = [event for event in worker.events if event["event"] == "replicating" and event["process"] == process]
    return int(ready[-1]["metrics"].removesuffix("/metrics").rpartition(":")[2]) if ready else 0


def _children(pid: int) -> list[int]:
    """The worker processes under one, in the order of their starts."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return sorted(map(int, children.split()))
