"""A job runs as long as it has queues, and while there is a Spark to run it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from replicator.spark.resident import pair as pairs
from replicator.spark.resident.job_run import keep_running
from replicator.spark.resident.jobs import SparkGone
from replicator.spark.resident.pair import Slot
from tests.support.worker import until


class Spark:
    """Each run ends as the next of `ends` says: an error, None, or `wait`: when it is cancelled."""

    def __init__(self, *ends: object) -> None:
        self.ends = [*ends]
        self.runs = 0
        self.cancelled = threading.Event()

    def run(self, _job: object) -> None:
        self.runs += 1
        end = self.ends.pop(0)
        if end == "wait":
            assert self.cancelled.wait(10)
            raise RuntimeError("cancelled")
        if isinstance(end, Exception):
            raise end

    def cancel(self, _number: int) -> None:
        self.cancelled.set()


async def _kept(spark: Spark, slot: Slot) -> str:
    return await keep_running(cast("Any", spark), slot, cast("Any", None))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "AGAIN_FIRST", 0.01)


async def test_a_job_that_ends_is_submitted_again_until_spark_is_gone() -> None:
    spark = Spark(RuntimeError("lost"), None, SparkGone("its JVM has ended"))
    assert await _kept(spark, Slot(1)) == "its JVM has ended"
    assert spark.runs == 3


async def test_a_job_without_queues_that_has_not_begun_is_cancelled() -> None:
    """It would queue for a slot."""
    spark, slot = Spark("wait"), Slot(1)
    kept = asyncio.create_task(_kept(spark, slot))
    await until(lambda: spark.runs == 1)
    slot.ending.set()
    assert await kept == ""
    assert spark.cancelled.is_set()


async def test_a_job_that_failed_is_not_submitted_when_its_queues_have_ended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "AGAIN_FIRST", 60.0)
    spark, slot = Spark(RuntimeError("lost")), Slot(1)
    kept = asyncio.create_task(_kept(spark, slot))
    await until(lambda: spark.runs == 1)
    slot.ending.set()
    async with asyncio.timeout(10):
        assert await kept == ""
