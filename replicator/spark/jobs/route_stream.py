"""A route as a Structured Streaming job: the stream's rows are ranges of queues, which each micro-batch copies.

Bodies never pass through the JVM, only five names and numbers per queue. Spark's checkpoint holds the ranges; how
far they are copied is read from the target, as in every route.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from replicator.client.cluster import Cluster
from replicator.client.topics import TopicConfig
from replicator.errors import ReplicatorError
from replicator.ranges.access import Access
from replicator.ranges.copier import CopyFailed, CopyJob, CopyOutcome, Range
from replicator.routing.plan import unsupported
from replicator.routing.queue_map import Queue
from replicator.routing.recovery import CopyRecord
from replicator.routing.selector import TopicSelector
from replicator.spark.engine.session import refuse_speculation
from replicator.spark.jobs.micro_batch import copy_batch
from replicator.spark.source.offsets import Part
from replicator.spark.source.stream import QueueStream
from replicator.spark.source.stream_offsets import Progress

__all__ = ["RouteStream"]

_NAME: Final = "rocketmq-ranges"
_SCHEMA: Final = "topic STRING, brokerName STRING, queueId INT, start BIGINT, end BIGINT"


class RouteStream:
    """The job of a route; each micro-batch is copied and reported before the next one starts.

    Args:
        first: start offsets of queues that are not in a checkpoint.
        ranges_of: maps parts of source queues to their target queues, which it creates if they do not exist yet.
        on_batch: called with the outcomes of each micro-batch.
    """

    def __init__(
        self,
        spark: Any,
        job: CopyJob,
        selector: TopicSelector,
        first: Progress,
        *,
        checkpoint: str,
        ranges_of: Callable[[Sequence[Part]], Sequence[Range]],
        on_batch: Callable[[Sequence[CopyOutcome]], None],
    ) -> None:
        #: The error of the last micro-batch, if it failed.
        self.failure = ""
        self._spark = spark
        self._job = job
        self._checkpoint = checkpoint
        self._ranges_of = ranges_of
        self._on_batch = on_batch
        self._tails: dict[str, CopyRecord] = {}
        self._query: Any = None
        self._busy = threading.Lock()
        self._draining = False
        refuse_speculation(spark)
        spark.dataSource.register(_source_of(job.source, selector, first))

    def run(self) -> None:
        """Returns when the job was drained.

        Raises:
            ReplicatorError: it ended; when restarted it continues from the checkpoint.
        """
        self.failure = ""
        self._tails = {}
        frame = self._spark.readStream.format(_NAME).load()
        writer = frame.writeStream.foreachBatch(self._take).queryName("rocketmq-replicator")
        try:
            self._query = writer.option("checkpointLocation", self._checkpoint).start()
            if self._draining:
                self._query.stop()
            self._query.awaitTermination()
        except Exception as error:  # noqa: BLE001 - errors of the JVM have many types
            raise ReplicatorError(self.failure or _reason(error)) from None

    def drain(self, seconds: float) -> None:
        """Starts no further micro-batch, and ends when the current one is copied, or after so many seconds."""
        self._draining = True
        if self._busy.acquire(timeout=seconds):
            self._busy.release()
        else:
            self._spark.sparkContext.cancelAllJobs()
        if self._query is not None:
            self._query.stop()

    @property
    def session_ended(self) -> bool:
        """Whether Spark has stopped the whole session."""
        return bool(self._spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001 - PySpark has no public way

    def _take(self, frame: Any, _: int) -> None:
        with self._busy, self._keeping_failure():
            if self._draining:
                raise CopyFailed("drained")
            parts = [Part(row[0], Queue(row[1], row[2]), row[3], row[4]) for row in frame.collect()]
            ranges = [replace(part, behind=self._tails.get(part.key)) for part in self._ranges_of(parts)]
            outcomes = copy_batch(self._spark, self._job, ranges)
            self._on_batch(outcomes)
            failed = [outcome.error for outcome in outcomes if outcome.error]
            if failed:
                raise CopyFailed("\n".join(failed))
            self._tails |= {outcome.key: outcome.tail for outcome in outcomes if outcome.tail is not None}

    @contextmanager
    def _keeping_failure(self) -> Iterator[None]:
        """Keeps the reason of a failure, which Spark would wrap into an error of its own."""
        try:
            yield
        except ReplicatorError as error:
            self.failure = str(error)
            raise


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    own = [line for line in lines if line.startswith("replicator.")]
    return own[-1].partition(": ")[2] if own else next(iter(lines), type(error).__name__)


@dataclass
class _Ranges(InputPartition):
    parts: Sequence[Part]


class _RangeStream(QueueStream):
    _way_out = "continue with a route without --engine spark, which handles it by on_gap"

    def __init__(self, access: Access, selector: TopicSelector, first: Progress) -> None:
        super().__init__(access, most=None, may_lose=False)
        self._selector = selector
        self._first = first

    def selects(self, topic: TopicConfig, system: Collection[str]) -> bool:
        return self._selector.selects(topic.name, system=system) and not unsupported(topic)

    async def first(self, cluster: Cluster) -> Progress:
        return self._first

    async def planned(self, cluster: Cluster, found: Sequence[Part]) -> Sequence[InputPartition]:
        return [_Ranges(found)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if isinstance(partition, _Ranges):
            for part in partition.parts:
                yield part.topic, part.queue.broker, part.queue.queue_id, part.start, part.end


def _source_of(access: Access, selector: TopicSelector, first: Progress) -> type[DataSource]:
    """A data source class per access, since options are visible in plans, and secrets must not be."""

    class Ranges(DataSource):
        @classmethod
        def name(cls) -> str:
            return _NAME

        def schema(self) -> str:
            return _SCHEMA

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            return _RangeStream(access, selector, first)

    return Ranges
