"""Partitions of a read: parts of queues, and their messages as Arrow batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage
from replicator.ranges.reader import RangeReader
from replicator.ranges.retry import PATIENCE
from replicator.routing.faults import SourceGap, SourceReset
from replicator.routing.provenance import Stamp
from replicator.spark.engine.tasks import in_turn
from replicator.spark.source.body_column import plain
from replicator.spark.source.offsets import Part, split, warn_of_loss
from replicator.spark.source.options import ReadOptions
from replicator.spark.source.rows import batch_of

__all__ = ["Partition", "plan", "scan"]

#: Approximate messages and bytes of one Arrow batch.
_ROWS: Final = 4096
_BYTES: Final = 4 * 1024 * 1024
#: Bytes of the bodies of one Arrow batch; more than what is gathered without any compression.
_UNCOMPRESSED: Final = 2 * _BYTES

T = TypeVar("T")


@dataclass
class Partition(InputPartition):
    """The part that one task reads; `cluster_id` is the cluster's id in provenance."""

    part: Part
    cluster_id: str


async def plan(cluster: Cluster, options: ReadOptions, parts: Sequence[Part]) -> list[InputPartition]:
    """Splits `parts` into as many partitions as the options require."""
    cluster_id = options.cluster_id or (await cluster.refresh()).cluster
    pieces = in_turn(split(parts, options.min_partitions), lambda part: part.queue.broker)
    return [Partition(part, cluster_id) for part in pieces]


def scan(options: ReadOptions, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """The messages of a partition, in order.

    Raises:
        ReplicatorError: the broker cannot be read, or no longer has some of the messages.
    """
    if not isinstance(partition, Partition):  # what Spark passes if there are no partitions
        return
    # Not uvloop: it checks timers before sockets, so that a slow consumer of rows would run into timeouts.
    with asyncio.Runner() as runner:
        context = options.access.connected(patience=PATIENCE)
        cluster = runner.run(_awaited(context.__aenter__()))
        try:
            yield from _batches(runner, cluster, options, partition)
        except (SourceGap, SourceReset) as loss:
            raise ReplicatorError(
                f"{partition.part.message_queue}: {loss.message}",
                hint="failOnDataLoss=false continues with what exists",
            ) from None
        finally:
            runner.run(_awaited(context.__aexit__(None, None, None)))


def _batches(
    runner: asyncio.Runner, cluster: Cluster, options: ReadOptions, partition: Partition
) -> Iterator[pa.RecordBatch]:
    part = partition.part
    stamp = Stamp(partition.cluster_id, *part.queue) if options.provenance else None
    loss: Literal["fail", "skip"] = "fail" if options.fail_on_data_loss else "skip"
    reader = RangeReader(cluster, part.topic, part.queue, part.start, part.end, on_loss=loss)
    chunks: Any = reader.chunks()
    try:
        while messages := runner.run(_gather(chunks)):
            for some, bodies in _uncompressed(messages) if "body" in options.columns else [(messages, [])]:
                yield batch_of(part, some, bodies, stamp, options.columns)
        if reader.gaps:
            warn_of_loss(part.message_queue, reader.gaps)
    finally:
        runner.run(_awaited(chunks.aclose()))


async def _gather(chunks: Any) -> list[StoredMessage]:
    """Enough messages for an Arrow batch; empty at the end."""
    found: list[StoredMessage] = []
    size = 0
    async for messages in chunks:
        found += messages
        size += sum(len(message.body) for message in messages)
        if len(found) >= _ROWS or size >= _BYTES:
            break
    return found


def _uncompressed(
    messages: Sequence[StoredMessage],
) -> Iterator[tuple[Sequence[StoredMessage], Sequence[bytes | None]]]:
    """The messages for one Arrow batch after the other, with their bodies, which may be far larger by then."""
    start, size = 0, 0
    bodies: list[bytes | None] = []
    for end, message in enumerate(messages, 1):
        bodies.append(body := plain(message))
        size += len(body or b"")
        if size >= _UNCOMPRESSED or end == len(messages):
            yield messages[start:end], bodies
            start, size, bodies = end, 0, []


async def _awaited(work: Awaitable[T]) -> T:
    return await work
