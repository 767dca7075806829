"""The data source `rocketmq` for PySpark 4: reads, and appends to, tables and streams.

spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "orders").load()

PySpark finds it by the package `pyspark_rocketmq`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from replicator.errors import ConfigError
from replicator.ranges.access import run
from replicator.ranges.retry import PATIENCE
from replicator.spark.engine.tasks import is_retry, refuse_speculating_task
from replicator.spark.source import pushdown
from replicator.spark.source import schema as columns
from replicator.spark.source.offsets import freeze, warn_of_nothing
from replicator.spark.source.options import ReadOptions, WriteOptions
from replicator.spark.source.row_encoder import rows_of
from replicator.spark.source.scan import plan, scan
from replicator.spark.source.sender import Sender, refuse_missing
from replicator.spark.source.stream import StreamReader

__all__ = ["RocketMQDataSource"]

#: Local properties of tasks: Spark's names for the run of a streaming query and the number of its micro-batch.
_RUN: Final = "spark.jobGroup.id"
_BATCH: Final = "streaming.sql.batchId"
#: The first micro-batch that this process has written, by run.
_written: dict[str, str] = {}


class RocketMQDataSource(DataSource):
    """Topics of a cluster."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        return columns.ddl(columns.of_option(self.options.get("columns")))

    def reader(self, schema: StructType) -> _Reader:
        options = _reading(ReadOptions.of(self.options), schema)
        return _NarrowedReader(options) if pushdown.is_wanted() else _Reader(options)

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:
        if overwrite:
            raise ConfigError('mode = "overwrite": messages cannot be deleted', hint='give mode("append")')
        return _Writer(_writing(WriteOptions.of(self.options), schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return StreamReader(_reading(ReadOptions.of(self.options, streaming=True), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> _StreamWriter:  # noqa: N802 - Spark's name
        if overwrite:
            raise ConfigError(
                'outputMode = "complete": messages cannot be deleted', hint='give outputMode("append")'
            )
        return _StreamWriter(_writing(WriteOptions.of(self.options, streaming=True), schema))


def _reading(options: ReadOptions, schema: StructType) -> ReadOptions:
    return replace(options, columns=columns.of_schema(schema))


def _writing(options: WriteOptions, schema: StructType) -> WriteOptions:
    columns.refuse_unwritable(schema, topic=options.topic)
    return options


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = pushdown.Narrowing()

    def partitions(self) -> list[InputPartition]:
        return run(self._plan())

    async def _plan(self) -> list[InputPartition]:
        async with self._options.access.connected() as cluster:
            queues = await freeze(cluster, self._options)
            if not queues:
                warn_of_nothing(self._options)
            parts = await self._narrowing.of(cluster, queues)
            return await plan(cluster, self._options, parts)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return scan(self._options, partition)


class _NarrowedReader(_Reader):
    """A reader that accepts filters from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        return self._narrowing.take(filters)


@dataclass
class _Sent(WriterCommitMessage):
    sent: int


class _Writer(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._brokers = run(_brokers(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        refuse_speculating_task()
        # The first attempt may follow a write that was aborted just now.
        return run(_write(self._options, iterator, brokers=self._brokers, settle=True))


class _StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream; a micro-batch is repeated if the query ended between its write and its commit."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._brokers = run(_brokers(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        refuse_speculating_task()
        settle = is_retry() or _begins_run()
        return run(_write(self._options, iterator, brokers=self._brokers, settle=settle))


async def _brokers(options: WriteOptions) -> frozenset[str]:
    """The brokers when a write starts: name servers forget a broker as soon as it is down, tasks must not.

    Raises:
        ConfigError: the topic cannot be written.
    """
    async with options.access.connected() as cluster:
        if options.topic is not None:
            await refuse_missing(cluster, options.topic)
        return frozenset(cluster.brokers())


async def _write(
    options: WriteOptions, batches: Iterator[pa.RecordBatch], *, brokers: Collection[str], settle: bool
) -> WriterCommitMessage:
    async with options.access.connected(patience=PATIENCE) as cluster:
        sender = Sender(cluster, settle=settle, brokers=brokers)
        for batch in batches:
            await sender.send(rows_of(batch, options.topic))
        return _Sent(sender.sent)


def _begins_run() -> bool:
    """Whether this is the first micro-batch that this process writes in this run of a query."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark streams run in tasks
    query, batch = context.getLocalProperty(_RUN), context.getLocalProperty(_BATCH)
    return _written.setdefault(str(query), str(batch)) == batch
