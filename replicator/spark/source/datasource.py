"""The data source `rocketmq` for PySpark 4: reads, and appends to, tables and streams.

spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "orders").load()

PySpark finds it by the package `pyspark_rocketmq`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
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
from replicator.spark.source.offsets import freeze
from replicator.spark.source.options import ReadOptions, WriteOptions
from replicator.spark.source.row_encoder import rows_of
from replicator.spark.source.rows import SCHEMA
from replicator.spark.source.scan import plan, scan
from replicator.spark.source.sender import Sender
from replicator.spark.source.stream import StreamReader

__all__ = ["RocketMQDataSource"]

#: Columns that can be written, with the names of their Spark types.
_WRITTEN: Final = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string",),
    "properties": ("map<string,string>",),
    "flag": ("int",),
    "brokerName": ("string",),
    "queueId": ("int",),
}
#: Columns of a read that only the broker sets.
_LEFT: Final = frozenset({"queueOffset", "msgId", "bornTimestamp", "storeTimestamp", "sysFlag", "reconsumeTimes"})

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
        return SCHEMA

    def reader(self, schema: StructType) -> _Reader:
        options = ReadOptions.of(self.options)
        return _NarrowedReader(options) if pushdown.is_wanted() else _Reader(options)

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:
        if overwrite:
            raise ConfigError('mode = "overwrite": messages cannot be deleted', hint='give mode("append")')
        return _Writer(_checked(schema, WriteOptions.of(self.options)))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return StreamReader(ReadOptions.of(self.options, streaming=True))

    def streamWriter(self, schema: StructType, overwrite: bool) -> _StreamWriter:  # noqa: N802 - Spark's name
        if overwrite:
            raise ConfigError(
                'outputMode = "complete": messages cannot be deleted', hint='give outputMode("append")'
            )
        return _StreamWriter(_checked(schema, WriteOptions.of(self.options, streaming=True)))


def _checked(schema: StructType, options: WriteOptions) -> WriteOptions:
    """Returns `options`, but refuses columns that cannot be written.

    Raises:
        ConfigError: names the column, with a hint.
    """
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name in _LEFT:
            continue
        if field.name not in _WRITTEN:
            raise ConfigError(
                f"column {field.name} cannot be written", hint=f"drop it; there are {', '.join(_WRITTEN)}"
            )
        if kind not in _WRITTEN[field.name]:
            raise ConfigError(f"column {field.name} is {kind}", hint=f"cast it to {_WRITTEN[field.name][0]}")
    names = set(schema.names)
    if "body" not in names:
        raise ConfigError("there is no column body", hint="it is the message's content")
    if options.topic is None and "topic" not in names:
        raise ConfigError("neither an option nor a column names the topic", hint="give the option topic")
    return options


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = pushdown.Narrowing()

    def partitions(self) -> list[InputPartition]:
        return run(self._plan())

    async def _plan(self) -> list[InputPartition]:
        async with self._options.access.connected() as cluster:
            parts = await self._narrowing.of(cluster, await freeze(cluster, self._options))
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
        return run(_write(self._options, iterator, brokers=self._brokers, settle=is_retry()))


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
    """The brokers when a write starts: name servers forget a broker as soon as it is down, tasks must not."""
    async with options.access.connected() as cluster:
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
