"""Compares queues by Spark: one task per source queue, small outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from replicator.ranges.access import run
from replicator.ranges.comparer import Compared, CompareJob, compare
from replicator.ranges.copy_job import Range
from replicator.spark.engine.tasks import each_as_task, in_turn, run_rate_limited

__all__ = ["RangeToCompare", "compare_all"]


class RangeToCompare(NamedTuple):
    """The requested range of a source queue, and whether the target has a queue for it."""

    part: Range
    there: bool


def compare_all(
    spark: Any, job: CompareJob, ranges: Sequence[RangeToCompare], *, on_compared: Callable[[Compared], None]
) -> None:
    """Compares `ranges`, one Spark task each; raises the errors of `run_all`.

    Args:
        on_compared: called with the outcome of each when it is known; what Spark has lost has one with an error.
    """
    left = {each.part.key: each.part for each in ranges}

    def compared(outcome: Compared) -> None:
        left.pop(outcome.key, None)
        on_compared(outcome)

    turns = in_turn(ranges, lambda each: each.part.source.broker)
    run_rate_limited(spark, _compare, job, turns, on_outcome=compared, on_tick=lambda: None)
    for part in left.values():
        on_compared(Compared.failed(part, "Spark's task has given no outcome: run it again"))


def _compare(job: CompareJob, attempts: int, ranges: Iterable[RangeToCompare]) -> Iterator[Compared]:
    return each_as_task(
        attempts,
        ranges,
        lambda each: run(compare(job, each.part, there=each.there)),
        lambda each, error: Compared.failed(each.part, error),
    )
