"""Copies the ranges of a micro-batch side by side, in as many tasks as can run at a time.

One task per range, as in a backfill, would cost more than the few messages that a range has here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from msgspec.structs import replace as replaced

from replicator.aio.bounded import bounded
from replicator.errors import ReplicatorError
from replicator.ranges.access import run
from replicator.ranges.copier import CopyJob, CopyOutcome, Range, copy_range
from replicator.ranges.rates import share
from replicator.spark.engine.tasks import attempts_of, is_last, is_retry

__all__ = ["copy_batch"]

#: Ranges copied concurrently by one task.
_AT_ONCE: Final = 64


def copy_batch(spark: Any, job: CopyJob, ranges: Sequence[Range]) -> list[CopyOutcome]:
    """Copies `ranges` and returns their outcomes; ranges that failed at every attempt have an error.

    Raises:
        Exception: Spark gave up; PySpark raises errors of many types.
    """
    context = spark.sparkContext
    tasks = min(len(ranges), context.defaultParallelism)
    shared = share(job, min(len(ranges), tasks * _AT_ONCE))
    work = partial(_copy, shared, attempts_of(spark))
    return list(context.parallelize(list(ranges), tasks).mapPartitions(work).collect())


def _copy(job: CopyJob, attempts: int, ranges: Iterable[Range]) -> Iterator[CopyOutcome]:
    """The body of a task."""
    # Requests of an interrupted attempt may still arrive.
    whole = [replaced(each, behind=None) if is_retry() else each for each in ranges]
    shared = replace(job, memory_bytes=job.memory_bytes // max(1, min(len(whole), _AT_ONCE)))
    outcomes = run(bounded(partial(_one, shared), whole, at_once=_AT_ONCE))
    failed = [outcome.error for outcome in outcomes if outcome.error]
    if failed and not is_last(attempts):
        raise RuntimeError(failed[0])
    yield from outcomes


async def _one(job: CopyJob, part: Range) -> CopyOutcome:
    try:
        return await copy_range(job, part)
    except ReplicatorError as error:
        return CopyOutcome.failed(part, str(error))
