"""Ranges copied by Spark: one task a source queue, so that its order stays; bodies never pass through the JVM."""

from __future__ import annotations

import importlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from replicator.client.brokers import max_offset
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.spark.access import Access, run
from replicator.spark.copying import Copied, CopyJob, Range, copy_range
from replicator.spark.session import refuse_speculation

__all__ = ["attempts_of", "copy_all", "share_rates"]

#: Seconds between two looks at what has come.
_LOOK: Final = 1.0
#: What Spark allows where nothing is set.
_FAILURES: Final = 4

log = get_logger(__name__)


def copy_all(
    spark: Any,
    job: CopyJob,
    parts: Sequence[Range],
    *,
    on_copied: Callable[[Copied], None],
    on_look: Callable[[int], None] = lambda _moved: None,
) -> None:
    """Copies `parts`, one Spark task each.

    Args:
        on_copied: called with the outcome of each when it is known.
        on_look: called now and then with how many messages have come to the target's queues meanwhile.

    Raises:
        ConfigError: speculation is switched on.
        ReplicatorError: Spark gave up; what was copied is there, and found when it is tried again.
    """
    refuse_speculation(spark)
    context = spark.sparkContext
    # Outcomes come over an accumulator, since a job's own result is there only when the last task has ended.
    outcomes = context.accumulator([], _Rows())
    ranges = context.parallelize(list(parts), len(parts))
    tasks = ranges.mapPartitions(
        partial(_copy, share_rates(job, len(parts), context.defaultParallelism), attempts_of(spark))
    )
    failure: list[BaseException] = []

    def work() -> None:
        try:
            tasks.foreach(partial(_tell, outcomes))
        except Exception as error:  # noqa: BLE001 - the JVM's errors come as many types
            failure.append(error)

    working = threading.Thread(target=work, name="backfill", daemon=True)
    gauge = _Gauge(job.target, parts)
    working.start()
    told = 0
    try:
        while True:
            working.join(_LOOK)
            over = not working.is_alive()
            found = list(outcomes.value)
            for outcome in found[told:]:
                on_copied(outcome)
            told = len(found)
            on_look(gauge.moved())
            if over:
                break
    except BaseException:
        context.cancelAllJobs()
        raise
    if failure:
        reason = next((line for line in str(failure[0]).splitlines() if "Error" in line), type(failure[0]).__name__)
        raise ReplicatorError(
            f"Spark gave the copy up: {reason.strip()}", hint="run it again; it goes on where it was"
        )


def share_rates(job: CopyJob, tasks: int, slots: int) -> CopyJob:
    """`job` with the part of its rates that each of `slots` tasks at a time may have."""
    at_once = max(1, min(tasks, slots))
    return replace(job, rate_messages=_part(job.rate_messages, at_once), rate_bytes=_part(job.rate_bytes, at_once))


def _part(limit: int, shares: int) -> int:
    return max(1, limit // shares) if limit else 0


def attempts_of(spark: Any) -> int:
    """How often Spark tries a task before it gives the whole job up."""
    master = spark.sparkContext.master
    if master.startswith("local"):
        given = re.fullmatch(r"local\[[^,\]]+,\s*(\d+)\]", master)
        return int(given[1]) if given else 1
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures", str(_FAILURES)))


def _copy(job: CopyJob, attempts: int, parts: Iterable[Range]) -> Iterator[Copied]:
    """What a task does. Its last attempt tells its error instead of raising it, so that other queues go on."""
    context = importlib.import_module("pyspark").TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    for part in parts:
        started = time.monotonic()
        try:
            yield run(copy_range(job, part))
        except ReplicatorError as error:
            if attempt + 1 < attempts:
                raise RuntimeError(str(error)) from None  # what PySpark has to pickle should be plain
            yield Copied.failed(part, str(error), time.monotonic() - started)


def _tell(outcomes: Any, outcome: Copied) -> None:
    outcomes.add([outcome])


class _Rows:
    """Puts the outcomes of tasks together, in the form that Spark's accumulators want."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        return value1 + value2


class _Gauge:
    """How much the target's queues have grown since the beginning."""

    def __init__(self, target: Access, parts: Sequence[Range]) -> None:
        self._target = target
        self._queues = sorted({(part.target_topic, part.target) for part in parts})
        self._first = self._sum()
        self._last = 0

    def moved(self) -> int:
        """Messages, others' too; what was known last where the target does not answer now."""
        now = self._sum()
        if now is not None and self._first is not None:
            self._last = now - self._first
        return self._last

    def _sum(self) -> int | None:
        try:
            return run(self._ask())
        except ReplicatorError as error:
            log.debug("target not asked", reason=str(error))
            return None

    async def _ask(self) -> int:
        async with self._target.connected() as cluster:
            return sum([await max_offset(cluster.master(q.broker), topic, q.queue_id) for topic, q in self._queues])
