"""The data source `rocketmq` for PySpark 4: batch reads and appends.

spark.dataSource.register(RocketMQDataSource)
spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "orders").load()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from replicator.client.cluster import Cluster
from replicator.errors import ConfigError
from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import Stamp
from replicator.spark.access import run
from replicator.spark.offsets import Part, freeze, split
from replicator.spark.options import ReadOptions, WriteOptions
from replicator.spark.reading import RangeReader
from replicator.spark.rows import SCHEMA, batch_of
from replicator.spark.sending import Row, Sender

__all__ = ["RocketMQDataSource"]

#: Messages and bytes of one Arrow batch, about.
_ROWS: Final = 4096
_BYTES: Final = 4 * 1024 * 1024

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
#: Columns of what was read that are the broker's to give.
_LEFT: Final = frozenset({"queueOffset", "msgId", "bornTimestamp", "storeTimestamp", "sysFlag", "reconsumeTimes"})

T = TypeVar("T")


class RocketMQDataSource(DataSource):
    """Topics of a cluster."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> _Reader:
        return _Reader(ReadOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:
        if overwrite:
            raise ConfigError('mode = "overwrite": messages cannot be taken back', hint='give mode("append")')
        options = WriteOptions.of(self.options)
        _check(schema, options)
        return _Writer(options)


def _check(schema: StructType, options: WriteOptions) -> None:
    """Refuses columns that could not be written.

    Raises:
        ConfigError: names the column and the way out.
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
        raise ConfigError("there is no column body", hint="it is what a message holds")
    if options.topic is None and "topic" not in names:
        raise ConfigError("neither an option nor a column says the topic", hint="give the option topic")


@dataclass
class _Partition(InputPartition):
    part: Part
    cluster_id: str


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return run(self._plan())

    async def _plan(self) -> list[InputPartition]:
        async with self._options.access.connected() as cluster:
            parts = await freeze(cluster, self._options)
            cluster_id = self._options.cluster_id or (await cluster.refresh()).cluster
        return [_Partition(part, cluster_id) for part in split(parts, self._options.min_partitions)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Partition):  # what Spark makes of no partitions
            return
        # Not uvloop: it looks at timers before sockets, so that a slow taker of rows would see time limits pass.
        with asyncio.Runner() as runner:
            context = self._options.access.connected()
            cluster = runner.run(_awaited(context.__aenter__()))
            try:
                yield from self._batches(runner, cluster, partition)
            finally:
                runner.run(_awaited(context.__aexit__(None, None, None)))

    def _batches(self, runner: asyncio.Runner, cluster: Cluster, partition: _Partition) -> Iterator[pa.RecordBatch]:
        part = partition.part
        stamp = Stamp(partition.cluster_id, *part.queue) if self._options.provenance else None
        loss: Literal["fail", "skip"] = "fail" if self._options.fail_on_data_loss else "skip"
        reader = RangeReader(cluster, part.topic, part.queue, part.start, part.end, on_loss=loss)
        chunks: Any = reader.chunks()
        try:
            while messages := runner.run(_gather(chunks)):
                yield batch_of(part, messages, stamp)
        finally:
            runner.run(_awaited(chunks.aclose()))


async def _gather(chunks: Any) -> list[StoredMessage]:
    """Enough messages for an Arrow batch; none at the end."""
    found: list[StoredMessage] = []
    size = 0
    async for messages in chunks:
        found += messages
        size += sum(len(message.body) for message in messages)
        if len(found) >= _ROWS or size >= _BYTES:
            break
    return found


async def _awaited(work: Awaitable[T]) -> T:
    return await work


@dataclass
class _Sent(WriterCommitMessage):
    sent: int


class _Writer(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        return run(self._write(iterator, attempt=context.attemptNumber() if context is not None else 0))

    async def _write(self, batches: Iterator[pa.RecordBatch], *, attempt: int) -> WriterCommitMessage:
        async with self._options.access.connected() as cluster:
            sender = Sender(cluster, attempt=attempt)
            for batch in batches:
                await sender.send(_rows(batch, self._options.topic))
            return _Sent(sender.sent)


def _rows(batch: pa.RecordBatch, topic: str | None) -> list[Row]:
    names = set(batch.schema.names)

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * batch.num_rows

    rows = []
    columns = [column(name) for name in _WRITTEN]
    for body, own, tags, keys, told, flag, broker, queue_id in zip(*columns, strict=True):
        if body is None:
            raise ConfigError("a row has no body", hint="leave such rows out")
        if topic is None and own is None:
            raise ConfigError("a row has no topic", hint="give the option topic, or leave such rows out")
        whole = dict(told or ())
        whole |= {name: value for name, value in (("TAGS", tags), ("KEYS", keys)) if value is not None}
        content = body.encode() if isinstance(body, str) else body
        rows.append(Row(topic or own, content, whole, flag or 0, broker, queue_id))
    return rows
