"""Queues compared by Spark: one task a source queue, small outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from replicator.ranges.access import run
from replicator.ranges.comparer import Compared, CompareJob, compare
from replicator.ranges.copier import Range
from replicator.spark.engine.tasks import each_as_task, in_turn, run_rated

__all__ = ["Lane", "compare_all"]


class Lane(NamedTuple):
    """A source queue as it was asked for, and whether the target has a queue for it."""

    part: Range
    there: bool


def compare_all(
    spark: Any, job: CompareJob, lanes: Sequence[Lane], *, on_compared: Callable[[Compared], None]
) -> None:
    """Compares `lanes`, one Spark task each; errors as those of `run_all`.

    Args:
        on_compared: called with the outcome of each when it is known.
    """
    turns = in_turn(lanes, lambda lane: lane.part.source.broker)
    run_rated(spark, _compare, job, turns, on_outcome=on_compared, on_look=lambda: None)


def _compare(job: CompareJob, attempts: int, lanes: Iterable[Lane]) -> Iterator[Compared]:
    return each_as_task(
        attempts,
        lanes,
        lambda lane: run(compare(job, lane.part, there=lane.there)),
        lambda lane, error: Compared.failed(lane.part, error),
    )
