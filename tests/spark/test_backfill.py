"""`replicator backfill` on real brokers: all copied in order, over tasks that fail, and on to the live route."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from rich.console import Console
from typer.testing import Result

from replicator.operate.show import cluster_table
from replicator.ranges import copier
from replicator.ranges.copy_job import CopyOutcome
from replicator.routing import provenance
from replicator.sandbox import ClusterSpec
from replicator.spark.engine import tasks
from replicator.spark.jobs import backfill as job
from tests.spark.waiting import ends, settled
from tests.support.offsets import are_at, commit, make_group
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import raw_topic
from tests.support.worker import SYNC_QUICKLY, until


@pytest.fixture
def run(command: Any, tmp_path: Path) -> Any:
    """`await run(scene, …)`: backfills it."""

    async def run(scene: Scene, *arguments: str) -> Result:
        given = ["--source", scene.source.namesrv, "--target", scene.target.namesrv, "--topics", scene.topic]
        given += ["--store-path", str(tmp_path / "store"), "--session-timeout", "3", "--settle-timeout", "0.2"]
        found: Result = await command("backfill", *given, *arguments)
        return found

    return run


async def test_backfill_and_then_the_live_route(run: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Two brokers to one, under load: no gap, no overlap, order kept; the route finds the copies by itself, those
    of long ago too: for who asks, and for a group that stands there.
    """
    pair = ClusterSpec(name="wide", brokers=2)
    async with scene(source=pair) as here:
        await here.produce(9000)
        group = f"{here.topic}-group"
        await make_group(here.source, group)
        await commit(here.source, group, here.topic, {("wide-b", 1): 700})
        async with here.producer(per_second=1000) as load:
            ended = await run(here, "--output", "json")
            assert ended.exit_code == 0, (ended.output, ended.exception)
            told = json.loads(ended.stdout)
            assert told["complete"]
            assert told["ranges"] == 8
            assert told["copied"] > 1000  # a broker may tell a queue's end late
            async with here.worker("--worker-group", "spark-backfill", *SYNC_QUICKLY) as worker:
                await worker.caught_up(here.topic, 1)
                asked = f"/connectors/route/where?topic={here.topic}&broker=wide-b&queue=1&offset=700"
                copy = worker.ask("GET", asked)[1]
                place = copy["broker"], copy["queue"]
                (found,) = [
                    m for m in (await raw_topic(here.target, here.topic))[place] if m.queue_offset == copy["offset"]
                ]
                source = provenance.read(found.properties)
                assert source is not None
                assert source[2:5] == ("wide-b", 1, 700)
                back = f"topic={here.topic}&broker={place[0]}&queue={place[1]}&offset={copy['offset']}&side=target"
                there = worker.ask("GET", f"/connectors/route/where?{back}")[1]
                assert there == {"topic": here.topic, "broker": "wide-b", "queue": 1, "offset": 700}
                await until(lambda: are_at(here.target, group, here.topic, {place: copy["offset"]}))
                await load.finish()
                await worker.caught_up(here.topic, 1)
                assert (
                    sum(queue["copied"] for queue in worker.queues(here.topic))
                    == 9000 + load.acknowledged - told["copied"]
                )
                live = await run(here, "--worker-group", "spark-backfill", "--manifest", str(tmp_path / "other"))
                assert live.exit_code == 1
                assert "stop the group's workers" in str(live.exception)
        await here.assert_clean(9000 + load.acknowledged)


async def test_tasks_that_fail_and_are_killed_are_made_again(
    run: Any, scene: SceneOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error, then a process that dies in mid-send: nothing lost, nothing twice, order kept."""
    whole_range = copier._copy
    errors: list[int] = []  # of this task, which tries again by itself

    async def fails(*given: Any) -> Any:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        attempt = context.attemptNumber() + len(errors)
        if attempt == 2:
            return await whole_range(*given)
        whole = asyncio.create_task(whole_range(*given))
        await asyncio.wait([whole], timeout=1.0)
        assert not whole.done()
        if attempt == 1:
            os._exit(9)
        whole.cancel()
        errors.append(attempt)
        raise OSError("failed by the test")

    def patched(*arguments: Any) -> Iterator[Any]:
        from replicator.ranges import copier
        from replicator.spark.jobs import backfill

        there: Any = copier  # as it is in the task's process, which serves other tests too
        there._copy = fails
        try:
            yield from backfill._copy(*arguments)
        finally:
            there._copy = whole_range

    async with scene(queues=2) as here:
        await here.produce(12_000)
        await settled(here.source, here.topic, 12_000)
        monkeypatch.setattr(job, "_copy", patched)
        ended = await run(here, "--rate-messages", "4000", "--batch-messages", "50", "--output", "json")
        assert ended.exit_code == 0, (ended.output, ended.exception)
        told = json.loads(ended.stdout)
        assert told["before"] > 0
        assert told["before"] + told["copied"] == 12_000
        await here.assert_clean(12_000)


async def test_others_that_would_copy_the_same(run: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Another backfill, from elsewhere, is refused; a worker that starts meanwhile waits and goes on behind it."""
    async with scene() as here:
        await here.produce(8000)
        await settled(here.source, here.topic, 8000)
        group = ("--worker-group", here.topic)
        backfill = asyncio.create_task(run(here, *group, "--rate-messages", "1000", "--batch-messages", "50"))

        async def copies() -> bool:
            return sum(await ends(here.target, here.topic)) > 0

        await until(copies, what="it copies")
        elsewhere = ("--store-path", str(tmp_path / "elsewhere"))
        refused = await run(here, *group, *elsewhere)
        assert f"backfill on {socket.gethostname()} copies the same queues, of {here.topic}" in str(
            refused.exception
        )
        async with here.worker(*group) as worker:
            await until(lambda: "a job copies queues of this group" in worker.log)
            assert worker.get("/status")["topics"] == []
            job = f"backfill on {socket.gethostname()}"
            assert worker.get("/status")["waiting_for"] == job
            with pytest.raises(HTTPError) as not_ready:
                worker.get("/health/ready")
            assert json.loads(not_ready.value.read())["reasons"] == {"worker": f"the worker waits for {job} to end"}
            console = Console(record=True, width=200)
            console.print(cluster_table(worker.ask("GET", "/getClusterInfo")[1]))
            assert job in console.export_text()
            assert not backfill.done()
            ended = await backfill
            assert ended.exit_code == 0, (ended.output, ended.exception)
            await here.produce(100, start=8000)
            await worker.caught_up(here.topic, 100)
            assert worker.topic(here.topic)["copied"] == 100
            assert worker.get("/status")["waiting_for"] == ""
        await here.assert_clean(8100)


async def test_a_rate_is_that_of_all_tasks(
    run: Any, scene: SceneOf, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many slots there are, or turn up after the job has begun."""
    async with scene() as here:
        await here.produce(6000)
        await settled(here.source, here.topic, 6000)
        monkeypatch.setattr(tasks, "slots", lambda _spark: 1)
        ended = await run(here, "--rate-messages", "3000", "--batch-messages", "50")
        assert ended.exit_code == 0, (ended.output, ended.exception)
        copies = [m.store_timestamp for q in (await raw_topic(here.target, here.topic)).values() for m in q]
        assert len(copies) == 6000
        assert max(copies) - min(copies) > 1600
        await here.assert_clean(6000)


async def test_a_run_that_was_broken_off_goes_on(
    run: Any, scene: SceneOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One queue fails for good, the others go on; the next run does that one, the route what came since."""

    def refusing(work: Any, attempts: int, parts: Any) -> Any:
        from contextlib import asynccontextmanager

        from replicator.errors import ReplicatorError
        from replicator.spark.engine.tasks import together_as_task

        @asynccontextmanager
        async def copying(_: bool) -> Any:
            async def one(part: Any) -> Any:
                if part.source.queue_id == 1:
                    raise ReplicatorError("refused by the test")
                return await copy(part)

            async with copier.copying(work) as copy:
                yield one

        return together_as_task(attempts, parts, copying, CopyOutcome.failed)

    async with scene() as here:
        await here.produce(4000)
        await settled(here.source, here.topic, 4000)
        with monkeypatch.context() as patch:
            patch.setattr(job, "_copy", refusing)
            ended = await run(here)
        assert ended.exit_code == 5, (ended.output, ended.exception)
        assert "1 of 4 queues are open: run it again" in ended.stdout
        assert "refused by the test" in " ".join(ended.stdout.split())
        await here.produce(400, start=4000)
        wrong = await run(here, "--tags", "tag1")
        assert "was begun with tags = []" in str(wrong.exception)
        ended = await run(here, "--output", "json")
        assert ended.exit_code == 0, (ended.output, ended.exception)
        told = json.loads(ended.stdout)
        assert [(queue["copied"], queue["end"]) for queue in told["queues"]] == [(1000, 1000)] * 4
        again = await run(here)
        assert (again.exit_code, again.stdout.split()[-1]) == (0, "complete")
        async with here.worker() as worker:
            await worker.caught_up(here.topic, 400)
        await here.assert_clean(4400)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--start-from", "latest"), "nothing would be copied"),
        (("--topics", "no-such-topic"), "the source has no such topic"),
        (("--exclude-groups", "a"), "No such option"),
    ],
)
async def test_what_cannot_be_done_is_said(run: Any, scene: SceneOf, flags: tuple[str, str], message: str) -> None:
    """Before anything is written."""
    async with scene() as here:
        ended = await run(here, *flags)
        assert ended.exit_code != 0
        assert message in f"{ended.exception} {ended.output}"


async def test_transforms_are_refused(run: Any, scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they come from the environment."""
    monkeypatch.setenv("REPLICATOR_TRANSFORMS", "mask?field=card")
    async with scene() as here:
        ended = await run(here)
        assert "transforms = mask?field=card: Spark's tasks" in str(ended.exception)
