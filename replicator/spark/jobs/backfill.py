"""Copies ranges by Spark: a task has a few source queues; bodies never pass through the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from replicator.aio.bounded import bounded
from replicator.client.brokers import max_offset
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.ranges.access import Access, run
from replicator.ranges.copier import copying
from replicator.ranges.copy_job import CopyJob, CopyOutcome, Range
from replicator.routing.message_queue import MessageQueue
from replicator.spark.engine.quiesce import for_attempt, settled
from replicator.spark.engine.tasks import bundles, in_turn, run_rate_limited, together_as_task

__all__ = ["Gauge", "copy_all"]

#: Concurrent requests for the ends of queues.
_AT_ONCE: Final = 64

log = get_logger(__name__)


def copy_all(
    spark: Any,
    job: CopyJob,
    parts: Sequence[Range],
    *,
    on_copied: Callable[[CopyOutcome], None],
    on_progress: Callable[[int], None],
) -> None:
    """Copies `parts`, a few in each Spark task; each is one queue's, which keeps its order.

    Args:
        on_copied: called with the outcome of each when it is known.
        on_progress: called regularly with the number of messages that have arrived at the target meanwhile.

    Raises:
        ConfigError: speculation is switched on.
        ReplicatorError: Spark gave up; copied messages stay, and the next attempt finds them.
    """
    job = settled(job, parts)
    gauge = Gauge(job.target, parts)
    turns = in_turn(parts, lambda part: part.source.broker)
    run_rate_limited(
        spark, _copy, job, bundles(spark, turns), on_outcome=on_copied, on_tick=lambda: on_progress(gauge.moved())
    )


def _copy(job: CopyJob, attempts: int, parts: Iterable[tuple[Range, ...]]) -> Iterator[CopyOutcome]:
    return together_as_task(attempts, parts, lambda again: copying(for_attempt(job, again)), CopyOutcome.failed)


class Gauge:
    """Measures how much the target's queues have grown since the start."""

    def __init__(self, target: Access, parts: Sequence[Range]) -> None:
        self._target = target
        self._queues = sorted({MessageQueue(part.target_topic, *part.target) for part in parts})
        self._first = self._sum()
        self._last = 0

    def moved(self) -> int:
        """The messages, including those of others; the last known number if the target does not answer."""
        now = self._sum()
        if now is not None and self._first is not None:
            self._last = now - self._first
        return self._last

    def _sum(self) -> int | None:
        try:
            return run(self._ask())
        except ReplicatorError as error:
            log.debug("target cannot be read", reason=str(error))
            return None

    async def _ask(self) -> int:
        async with self._target.connected() as cluster:

            async def end(queue: MessageQueue) -> int:
                return await max_offset(cluster.master(queue.broker), queue.topic, queue.queue_id)

            return sum(await bounded(end, self._queues, at_once=_AT_ONCE))
