"""Spark commands whose process is killed -9 in mid-copy: run again they continue, and nothing is copied twice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.spark.test_archive import Command, export, restore, told
from tests.spark.waiting import ends, settled
from tests.support.scene import Scene, SceneOf
from tests.support.worker import until

pytestmark = pytest.mark.timeout(300)

COUNT = 8000
SLOWLY = ("--rate-messages", "1500")


@asynccontextmanager
async def killed(*arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command in a process of its own, which is killed at the end of the context if it still runs."""
    given = [str(each) for each in arguments]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replicator", *given, "--spark-master", "local[2,4]"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
        assert process.returncode is None, "it has ended already"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_export_then_import_then_backfill(command: Command, scene: SceneOf, tmp_path: Path) -> None:
    """Each is broken off once, and goes on."""
    archive, store = tmp_path / "archive", tmp_path / "store"
    async with scene() as here:
        await here.produce(COUNT)
        await settled(here.source, here.topic, COUNT)
        source, target = ("--source", here.source.namesrv), ("--target", here.target.namesrv)
        async with killed("export", archive, *source, "--topics", here.topic, *SLOWLY):
            await until(lambda: list(archive.rglob(".*")), what="a file is under way")
        done = told(await export(command, here, archive))
        assert (done["complete"], done["messages"]) == (True, COUNT)

        async with killed("import", archive, *target, "--store-path", store, *SLOWLY):
            await until(lambda: _copied(here), what="something is copied")
        done = told(await restore(command, here, archive, store))
        assert (done["complete"], done["copied"] + done["before"]) == (True, COUNT)
        assert done["before"] > 0
        await settled(here.target, here.topic, COUNT)
        await here.assert_clean(COUNT)

        await here.produce(COUNT, start=COUNT)
        await settled(here.source, here.topic, 2 * COUNT)
        store = tmp_path / "other"
        flags = (*source, *target, "--topics", here.topic, "--store-path", store, "--session-timeout", "3")
        async with killed("backfill", *flags, *SLOWLY):
            await until(lambda: _copied(here, more_than=COUNT), what="something is copied")
        done = told(await command("backfill", *flags, "--output", "json"))
        assert (done["complete"], done["copied"] + done["before"]) == (True, 2 * COUNT)
        await settled(here.target, here.topic, 2 * COUNT)
        await here.assert_clean(2 * COUNT)


async def _copied(here: Scene, *, more_than: int = 0) -> bool:
    return sum(await ends(here.target, here.topic)) > more_than
