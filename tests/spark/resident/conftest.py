"""A worker's side whose Spark the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from replicator.spark.resident import owner as under_test
from replicator.spark.resident import pair as pairs
from tests.spark.resident.played import GRANT, Scene, Spark
from tests.support.worker import until


@pytest.fixture
async def make(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[int], Scene]]:
    monkeypatch.setattr(under_test, "_GRANT", GRANT)
    for module in (under_test, pairs):
        monkeypatch.setattr(module, "AGAIN_FIRST", 0.05)
    made: list[Scene] = []

    def scene(slots: int) -> Scene:
        made.append(Scene(slots))
        return made[-1]

    yield scene
    for each in made:
        for run in each.runs:
            run.cancel()
        await asyncio.gather(*each.runs, return_exceptions=True)
        await until(partial(_closed, each.spark), seconds=10, what="the session ends")


def _closed(spark: Spark) -> bool:
    return not spark.opened
