"""Micro-batches of a route by Spark: tasks that die in mid-send, jobs that fail and go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ReplicatorError
from replicator.ranges import copier
from replicator.ranges.access import Access
from replicator.ranges.copier import CopyJob, CopyOutcome, Range
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.selector import TopicSelector, compile_patterns
from replicator.spark.jobs import micro_batch
from replicator.spark.source.offsets import Part
from tests.spark.waiting import settled
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import create_topic


def job_of(scene: Scene, **more: Any) -> CopyJob:
    return CopyJob(
        source=Access(namesrv=(scene.source.namesrv,)),
        target=Access(namesrv=(scene.target.namesrv,)),
        options=RouteOptions(identity=Identity("east", "west"), batch_messages=50, settle_timeout=0.2),
        memory_bytes=8 * 1024**2,
        **more,
    )


def ranges_of(scene: Scene, parts: Sequence[Part]) -> list[Range]:
    there = scene.target.brokers[0].name
    return [
        Range(part.topic, part.queue, part.topic, part.queue._replace(broker=there), part.start, part.end)
        for part in parts
    ]


async def test_a_job_fails_and_goes_on(
    spark: Any, scene: SceneOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A task's process dies in mid-send, then a micro-batch fails after its copy: nothing lost, nothing twice."""
    from replicator.spark.jobs.route_stream import RouteStream

    async def dies(work: Any, part: Any) -> Any:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        whole = asyncio.create_task(copier.copy_range(work, part))
        if context.attemptNumber() == 0:
            await asyncio.wait([whole], timeout=1.0)
            assert not whole.done()
            os._exit(9)
        return await whole

    def patched(*arguments: Any) -> Iterator[Any]:
        from replicator.spark.jobs import micro_batch

        there: Any = micro_batch  # as it is in the task's process, which serves other tests too
        there.copy_range = dies
        try:
            yield from there._copy(*arguments)
        finally:
            there.copy_range = copier.copy_range

    async with scene(queues=2) as here:
        await here.produce(4000)
        await settled(here.source, here.topic, 4000)
        await create_topic(here.target, here.topic, queues=2)
        told: list[CopyOutcome] = []

        def fails_once(outcomes: Sequence[CopyOutcome]) -> None:
            told.extend(outcomes)
            if len(told) <= 2:
                raise ReplicatorError("refused by the test")

        stream = RouteStream(
            spark,
            job_of(here, rate_messages=2000),
            TopicSelector(compile_patterns("topics", [here.topic])),
            {},
            checkpoint=str(tmp_path),
            ranges_of=lambda parts: ranges_of(here, parts),
            on_batch=fails_once,
        )
        with monkeypatch.context() as patch:
            patch.setattr(micro_batch, "_copy", patched)
            with pytest.raises(ReplicatorError, match=r"^refused by the test$"):
                await asyncio.to_thread(stream.run)
        assert sum(outcome.before for outcome in told) > 0
        running = asyncio.create_task(asyncio.to_thread(stream.run))
        await here.produce(1000, start=4000)
        await settled(here.target, here.topic, 5000)
        await asyncio.to_thread(stream.drain, 30.0)
        await asyncio.wait([running])
        await here.assert_clean(5000)
        assert sum(outcome.before + outcome.copied for outcome in told[:2]) == 4000
        assert sum(outcome.copied for outcome in told[2:]) == 1000
