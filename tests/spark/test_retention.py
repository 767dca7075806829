"""A source that has lost its oldest messages, before a job begins or after its ranges are frozen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from replicator.client.brokers import min_offset
from replicator.ranges.copy_job import CopyOutcome
from replicator.sandbox import Cluster
from replicator.spark.jobs import backfill, export
from replicator.spark.jobs.export import Exported
from tests.spark.test_datasource import reading
from tests.spark.waiting import settled
from tests.support.narrow import NARROW
from tests.support.scene import SceneOf
from tests.support.traffic import connected

COUNT = 4000


async def lose_oldest(source: Cluster, topic: str, *, files: int = 2) -> list[int]:
    """Takes the oldest files of the commit log from its only broker, which is what retention leaves.

    Brokers delete nothing themselves in their first minute.

    Returns:
        The oldest offsets of the topic's two queues.
    """
    (broker,) = source.brokers
    await broker.kill()
    for file in sorted((broker.home / "store" / "commitlog").iterdir())[:files]:
        file.unlink()
    await broker.start()
    async with connected(source) as client:
        return [await min_offset(client.master(broker.name), topic, queue_id) for queue_id in range(2)]


def broken_off(failed: Callable[[Any, str], Any]) -> Callable[..., Iterator[Any]]:
    """Tasks that leave their queues open."""

    def tasks(job: Any, attempts: int, parts: Any) -> Iterator[Any]:
        for part in parts:
            yield failed(part, "broken off by the test")

    return tasks


async def test_messages_that_are_gone(
    command: Any, spark: Any, scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was frozen is a gap, counted to the message, or stops its queue; what begins later begins behind it."""
    async with scene(source=NARROW, mistreated=(NARROW,), queues=2) as here:
        await here.produce(2 * COUNT, size=400)
        await settled(here.source, here.topic, 2 * COUNT)
        of_source = ("--source", here.source.namesrv, "--topics", here.topic)
        both = (*of_source, "--target", here.target.namesrv)
        store = ("--store-path", tmp_path / "store", "--session-timeout", "3", "--settle-timeout", "0.2")
        jobs: dict[str, tuple[object, ...]] = {
            "backfill": (*both, *store),
            "export": (tmp_path / "archive", *of_source),
        }

        async def run(name: str, *flags: object) -> tuple[Result, Any]:
            ended: Result = await command(name, *flags, "--output", "json")
            assert isinstance(ended.exception, SystemExit | None), ended.exception
            return ended, json.loads(ended.stdout)

        early = (*both, "--rename", "{topic}-early")
        assert (await run("backfill", *early, *store, "--manifest", tmp_path / "early"))[1]["copied"] == 2 * COUNT
        with monkeypatch.context() as patch:
            patch.setattr(backfill, "_copy", broken_off(CopyOutcome.failed))
            patch.setattr(export, "_export", broken_off(Exported.failed))
            for name, flags in jobs.items():
                assert (await run(name, *flags))[0].exit_code == 5
        planned = [reading(spark, here, failOnDataLoss=flag).rdd for flag in ("true", "false")]
        assert [rdd.getNumPartitions() for rdd in planned] == [2, 2]

        oldest = await lose_oldest(here.source, here.topic)
        left = 2 * COUNT - sum(oldest)
        assert 500 < min(oldest) <= max(oldest) < COUNT - 500
        for name, flags in jobs.items():
            ended, told = await run(name, *flags, "--on-gap", "fail")
            assert ended.exit_code == 5
            assert not told["complete"]
            for queue, first in zip(told["queues"], oldest, strict=True):
                assert f"{first} messages at offsets 0 to {first - 1}" in queue["error"]
            ended, told = await run(name, *flags)
            assert (ended.exit_code, told["complete"]) == (0, True)
            assert [queue["gaps"] for queue in told["queues"]] == oldest
            assert sum(queue["messages" if name == "export" else "copied"] for queue in told["queues"]) == left
        again = (tmp_path / "archive", *both[4:], "--rename", "{topic}-again", *store[:2])
        ended, told = await run("import", *again)
        assert ([queue["gaps"] for queue in told["queues"]], told["copied"]) == (oldest, left)
        ended, told = await run("export", tmp_path / "later", *of_source)
        assert ([queue["gaps"] for queue in told["queues"]], told["messages"]) == ([0, 0], left)
        await settled(here.target, here.topic, left)
        await here.assert_clean(left)

        for flags in (both, early):
            ended, told = await run("verify", *flags, "--complete")
            assert (ended.exit_code, told["counts"]) == (0, {})
            assert [(q["start"], q["end"], q["copies"]) for q in told["queues"]] == [
                (first, COUNT, COUNT - first) for first in oldest
            ]

        broker = here.source.brokers[0].name
        from_zero = {"startingOffsets": json.dumps({here.topic: {broker: {"0": 0, "1": oldest[1]}}})}
        assert reading(spark, here).count() == left
        with pytest.raises(
            Exception, match=f"0 has the offsets {oldest[0]} to {COUNT}, 0 to {COUNT} were requested"
        ):
            reading(spark, here, **from_zero).count()
        assert reading(spark, here, failOnDataLoss="false", **from_zero).count() == left
        with pytest.raises(Exception, match=r"messages at offsets 0 to .*failOnDataLoss=false"):
            planned[0].count()
        assert planned[1].count() == left
