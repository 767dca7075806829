"""`replicator run --engine spark` on real brokers: killed, restarted, drained, and what it refuses."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from tests.spark.stream_job import Job
from tests.spark.waiting import ends, settled
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import create_topic, judge, produce
from tests.support.worker import until


async def count(scene: Scene, topic: str) -> int:
    return sum(await ends(scene.target, topic))


@pytest.mark.timeout(600)
async def test_killed_restarted_drained_and_taken_over(
    scene: SceneOf, logs_aside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load, with a topic that turns up meanwhile: nothing lost, nothing twice, order kept."""
    async with scene(queues=2) as here:
        job = Job(here, tmp_path)
        await here.produce(1000)
        await settled(here.source, here.topic, 1000)
        async with here.producer(per_second=200) as load:

            async def copied_live() -> bool:
                return await count(here, here.topic) > 1500

            async with job.running() as process:
                await until(copied_live, seconds=120, what="micro-batches")
                process.kill()
                await process.wait()
            more = f"{here.topic}-more"
            before = await count(here, here.topic)

            async def goes_on() -> bool:
                return await count(here, here.topic) > before + 200

            async with job.running() as process:
                await until(goes_on, seconds=120, what="micro-batches after the restart")
                await create_topic(here.source, more, queues=1)
                await produce(here.source, more, 300)
                await load.finish()
                total = 1000 + load.acknowledged

                async def all_there() -> bool:
                    return await count(here, here.topic) >= total and await count(here, more) >= 300

                await until(all_there, seconds=120, what=f"{total} copies")
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 60) == 0, job.log
                assert "drained" in job.log
        await here.assert_clean(total)
        verdict = await judge(here.source, here.target, more)
        assert verdict.clean, verdict.report()
        await here.produce(100, start=100_000)
        async with here.worker("--worker-group", "spark-run") as worker:
            await worker.caught_up(here.topic, 100)
            monkeypatch.setattr("replicator.operate.run.configure", lambda level: None)
            flags = ["--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic]
            flags += ["--engine", "spark", "--checkpoint", "c", "--store-path", str(tmp_path / "other")]
            refused = await asyncio.to_thread(
                CliRunner().invoke, app, ["run", *flags, "--worker-group", "spark-run"]
            )
            assert "stop the group's workers" in str(refused.exception)
        await here.assert_clean(total + 100)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--engine", "spark"), "checkpoint is missing: give --checkpoint"),
        (("--checkpoint", "c"), "--checkpoint = 'c' would do nothing"),
        (("--engine", "spark", "--checkpoint", "c", "--rest-port", "1"), "--rest-port with --engine spark"),
        (("--engine", "spark", "--checkpoint", "c", "--start-from", "latest"), "nothing would be copied"),
        (("--engine", "flink"), "flink"),
    ],
)
def test_what_cannot_be_done_is_said(flags: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is asked of a cluster."""
    monkeypatch.setattr("replicator.operate.run.configure", lambda level: None)
    ended = CliRunner().invoke(app, ["run", "--source", "a:1", "--target", "b:1", *flags])
    assert ended.exit_code != 0
    assert message in f"{ended.exception} {ended.output}"
