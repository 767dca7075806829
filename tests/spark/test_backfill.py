"""`replicator backfill` on real brokers: all copied in order, over tasks that fail, and on to the live route."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from replicator.cli import app
from replicator.operate import backfill as command
from replicator.sandbox import ClusterSpec
from replicator.spark import backfill as job
from replicator.spark import copying
from tests.support.scene import Scene, SceneOf

pytestmark = pytest.mark.brokers


@pytest.fixture
def run(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The command in this process, with the tests' own Spark session."""

    @contextmanager
    def ours(*, master: str | None = None) -> Iterator[Any]:
        assert master is None
        yield spark

    monkeypatch.setattr(command, "session", ours)

    async def run(scene: Scene, *arguments: str) -> Result:
        given = ["--source", scene.source.namesrv, "--target", scene.target.namesrv, "--topics", scene.topic]
        given += ["--store-path", str(tmp_path / "store"), "--session-timeout", "3", "--settle-seconds", "0.2"]
        return await asyncio.to_thread(
            CliRunner().invoke, app, ["backfill", *given, *arguments], catch_exceptions=True
        )

    return run


async def test_backfill_and_then_the_live_route(run: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Two brokers to one, under load: no gap, no overlap, order kept; the route finds the copies by itself."""
    pair = ClusterSpec(name="wide", brokers=2)
    async with scene(source=pair) as here:
        await here.produce(9000)
        async with here.producer(per_second=1000) as load:
            ended = await run(here, "--output", "json")
            assert ended.exit_code == 0, (ended.output, ended.exception)
            told = json.loads(ended.stdout)
            assert told["complete"]
            assert told["ranges"] == 8
            assert told["copied"] >= 9000
            async with here.worker("--group", "spark-backfill") as worker:
                await worker.caught_up(here.topic, 1)
                await load.finish()
                await worker.caught_up(here.topic, 1)
                assert (
                    sum(queue["copied"] for queue in worker.queues(here.topic))
                    == 9000 + load.acknowledged - told["copied"]
                )
                live = await run(here, "--group", "spark-backfill", "--manifest", str(tmp_path / "other"))
                assert live.exit_code == 1
                assert "stop the group's workers" in str(live.exception)
        await here.assert_clean(9000 + load.acknowledged)


async def test_tasks_that_fail_and_are_killed_are_made_again(
    run: Any, scene: SceneOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error, then a process that dies in mid-send: nothing lost, nothing twice, order kept."""

    async def fails(work: Any, part: Any) -> Any:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        attempt = context.attemptNumber()
        if attempt == 2:
            return await copying.copy_range(work, part)
        whole = asyncio.create_task(copying.copy_range(work, part))
        await asyncio.wait([whole], timeout=1.0)
        assert not whole.done()
        if attempt == 1:
            os._exit(9)
        whole.cancel()
        raise OSError("failed by the test")

    def patched(*arguments: Any) -> Iterator[Any]:
        from replicator.spark import backfill

        there: Any = backfill  # as it is in the task's process, which serves other tests too
        there.copy_range = fails
        try:
            yield from there._copy(*arguments)
        finally:
            there.copy_range = copying.copy_range

    async with scene(queues=2) as here:
        await here.produce(12_000)
        monkeypatch.setattr(job, "_copy", patched)
        ended = await run(here, "--rate-messages", "4000", "--batch-messages", "50", "--output", "json")
        assert ended.exit_code == 0, (ended.output, ended.exception)
        told = json.loads(ended.stdout)
        assert told["before"] > 0
        assert told["before"] + told["copied"] == 12_000
        await here.assert_clean(12_000)
