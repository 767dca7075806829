"""Brokers that are killed while a job reads or writes: back in time it ends, else it says so and goes on later."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from replicator.ranges import reader as reader_module
from replicator.sandbox import ClusterSpec
from replicator.spark.jobs import export, verify
from tests.spark.test_surroundings import told
from tests.spark.waiting import ends, settled
from tests.support.scene import SceneOf
from tests.support.traffic import judge
from tests.support.worker import until

pytestmark = pytest.mark.timeout(400)

WIDE = ClusterSpec(name="wide", brokers=2)
COUNT = 6000


#: The module whose tasks a command runs, and what runs them there.
TASKS = {"verify": (verify, "_compare"), "export": (export, "_export")}


def waiting(name: str, directory: Path, *, patience: float) -> Callable[..., Iterator[Any]]:
    """Tasks of a command that tell when they have read something, and read on when `directory` has a file `on`."""
    module, tasks = TASKS[name][0].__name__, TASKS[name][1]

    def patched(*arguments: Any) -> Iterator[Any]:
        import importlib

        place: Any = reader_module
        reader, usual = place.RangeReader, place.PATIENCE
        whole = reader.chunks

        async def chunks(self: Any) -> AsyncIterator[Any]:
            async for messages in whole(self):
                (directory / self._queue.broker).touch()
                yield messages
                while not (directory / "on").exists():  # noqa: ASYNC110 - another process makes it
                    await asyncio.sleep(0.05)

        reader.chunks, place.PATIENCE = chunks, patience
        try:
            yield from getattr(importlib.import_module(module), tasks)(*arguments)
        finally:
            reader.chunks, place.PATIENCE = whole, usual  # the process serves other tests too

    return patched


async def test_a_source_broker(
    command: Any, scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two: what `verify` and `export` read of the other is whole, and of this one once it is there again."""
    async with scene(source=WIDE, mistreated=(WIDE,), queues=1) as here:
        await here.produce(COUNT, size=4000)  # more than a task reads ahead
        await settled(here.source, here.topic, COUNT)
        of_source = ("--source", here.source.namesrv, "--topics", here.topic)
        both = (*of_source, "--target", here.target.namesrv)
        store = ("--store-path", tmp_path / "store", "--session-timeout", "3")
        assert told(await command("backfill", *both, *store, "--output", "json"))["copied"] == COUNT
        await settled(here.target, here.topic, COUNT)
        victim, other = here.source.brokers

        async def killed(name: str, *flags: object, back: bool) -> Result:
            directory = tmp_path / f"{name}-{back}"
            directory.mkdir()
            with monkeypatch.context() as patch:
                patch.setattr(*TASKS[name], waiting(name, directory, patience=60.0 if back else 2.0))
                job = asyncio.create_task(command(name, *flags, "--output", "json"))
                read = [directory / broker.name for broker in here.source.brokers]
                await until(lambda: all(file.exists() for file in read), what="both queues are read")
                await victim.kill()
                (directory / "on").touch()
                if back:
                    await victim.start()
                ended: Result = await job
                return ended

        for name, count in (("verify", "copies"), ("export", "messages")):
            archive = (tmp_path / "archive",) if name == "export" else ()
            flags = (*archive, *of_source) if name == "export" else (*both, "--complete")
            ended = await killed(name, *flags, back=False)
            assert ended.exit_code == 5, (ended.output, ended.exception)
            queues = {queue["key"].split("/")[1]: queue for queue in json.loads(ended.stdout)["queues"]}
            assert re.search(f"{victim.name}.* cannot be re(ad|ached)", queues[victim.name]["error"])
            assert "\n" not in queues[victim.name]["error"]
            assert (queues[other.name]["error"], queues[other.name][count]) == ("", COUNT // 2)
            await victim.start()
            again = told(await command(name, *flags, "--output", "json"))
            assert sum(queue[count] for queue in again["queues"]) == COUNT
            if archive:
                flags = (tmp_path / "other", *of_source)
            back = told(await killed(name, *flags, back=True))
            assert [queue[count] for queue in back["queues"]] == [COUNT // 2] * 2


async def test_a_target_broker_of_an_import(command: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Of two: back in time nothing comes twice; else its queue is open, and the next run goes on there."""
    async with scene(source=WIDE, mistreated=(WIDE,), queues=1) as here:
        await here.produce(COUNT)
        await settled(here.source, here.topic, COUNT)
        archive, victim = tmp_path / "archive", here.source.brokers[0]
        of_source = ("--source", here.source.namesrv, "--topics", here.topic)
        assert told(await command("export", archive, *of_source, "--output", "json"))["messages"] == COUNT
        # Into the cluster that it came from, which is taken for another then: it has two brokers.
        given = [
            "--target",
            here.source.namesrv,
            "--target-id",
            "again",
            "--settle-timeout",
            "0.2",
            "--output",
            "json",
        ]
        slowly = ("--rate-messages", "1500", "--batch-messages", "100")

        async def killed(name: str, *more: str, back: bool) -> Result:
            """Back as soon as it can be, or when the command has ended."""

            async def both_copy() -> bool:
                return min(await ends(here.source, f"{here.topic}-{name}"), default=0) > 300

            flags = (archive, *given, "--rename", f"{{topic}}-{name}", "--store-path", tmp_path / name)
            job = asyncio.create_task(command("import", *flags, *slowly, *more))
            await until(both_copy, what="both queues are written")
            await victim.kill()
            if back:
                await victim.start()
            ended: Result = await job
            if not back:
                await victim.start()
                assert told(await command("import", *flags))["complete"]
            await settled(here.source, f"{here.topic}-{name}", COUNT)
            verdict = await judge(here.source, here.source, here.topic, target_topic=f"{here.topic}-{name}")
            assert (verdict.clean, verdict.copies) == (True, COUNT), verdict.report()
            return ended

        done = told(await killed("back", back=True))
        assert done["before"] + done["copied"] == COUNT
        ended = await killed("away", "--stall-timeout", "2", back=False)
        assert ended.exit_code == 5, (ended.output, ended.exception)
        errors = [queue["error"] for queue in json.loads(ended.stdout)["queues"]]
        assert errors[1] == ""
        assert "\n" not in errors[0]
        assert re.search("made no progress|start a broker there|cannot be reached", errors[0])
