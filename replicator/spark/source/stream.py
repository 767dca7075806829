"""The data source `rocketmq` as a stream: plans the ranges of micro-batches, in a process beside the driver."""

# ruff: noqa: N802 - the names of the methods are Spark's

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import pyarrow as pa
import uvloop
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.routing.message_queue import MessageQueue
from replicator.spark.source.latest_offsets import Watch
from replicator.spark.source.offsets import freeze, warn_of_nothing
from replicator.spark.source.options import ReadOptions
from replicator.spark.source.scan import plan, scan
from replicator.spark.source.stream_offsets import (
    Progress,
    advance,
    begins,
    of_json,
    parts,
    to_json,
    until,
    waiting,
)

__all__ = ["StreamReader"]

log = get_logger(__name__)

T = TypeVar("T")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches over queues; their rows are messages, as in a batch read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._open: tuple[asyncio.Runner, AsyncExitStack, Cluster, Watch] | None = None
        self._last: Progress | None = None
        self._triggered = -math.inf
        self._warned = False
        self._seen: Progress = {}

    def initialOffset(self) -> dict[str, Any]:
        return to_json(self._run(self._first(self._connected()[0])))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if (most := self._options.max_offsets) is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._run(self._connected()[1].ends({}))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(self._run(self._advance(of_json(start), most)))

    def reportLatestOffset(self) -> dict[str, Any]:
        return to_json(self._seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._run(self._plan(of_json(start), of_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return scan(self._options, partition)

    def stop(self) -> None:
        if self._open is not None:
            runner, context, *_ = self._open
            self._open = None
            runner.run(context.aclose())
            runner.close()

    async def _first(self, cluster: Cluster) -> Progress:
        return {part.message_queue: part.start for part in await freeze(cluster, self._options)}

    async def _advance(self, start: Progress, most: int | None) -> Progress:
        _, watch = self._connected()
        ends = self._seen = await watch.ends(start)
        if not ends and not self._warned:
            self._warned = True
            warn_of_nothing(self._options)
        lost = _lost(start, ends)
        if lost and self._options.fail_on_data_loss:
            raise ReplicatorError(
                _loss(lost[0], start, ends), hint="failOnDataLoss=false continues with what exists"
            )
        if self._last is not None:
            ends = until(ends, start, self._last)
        begin = await self._begins(start, ends)
        return advance(begin, ends, most) if self._is_due(waiting(begin, ends)) else start

    def _is_due(self, count: int) -> bool:
        """Whether so many offsets are enough for a micro-batch now: the minimum is waited for, but not for ever."""
        now = time.monotonic()
        late = now - self._triggered >= self._options.max_delay
        if count < self._options.min_offsets and not late and self._last is None:
            return False
        if count:
            self._triggered = now
        return True

    async def _plan(self, start: Progress, end: Progress) -> Sequence[InputPartition]:
        for queue in _lost(start, end):
            reason = _loss(queue, start, end)
            if queue in end:
                log.warning("a queue is read from its oldest message", reason=reason)
            else:
                log.warning("a queue is left out", reason=reason)
        return await plan(self._connected()[0], self._options, parts(await self._begins(start, end), end))

    async def _begins(self, start: Progress, ends: Progress) -> Progress:
        recreated = [queue for queue, end in ends.items() if start.get(queue, end + 1) > end]
        return begins(start, ends, await self._connected()[1].oldest(recreated) if recreated else {})

    def _connected(self) -> tuple[Cluster, Watch]:
        """Connects at the first use: readers are also sent to tasks, which need no connection."""
        if self._open is None:
            runner, context = asyncio.Runner(loop_factory=uvloop.new_event_loop), AsyncExitStack()
            cluster = runner.run(context.enter_async_context(self._options.access.connected()))
            self._open = runner, context, cluster, Watch(cluster, self._options.queues)
        return self._open[2], self._open[3]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        self._connected()
        assert self._open is not None  # noqa: S101 - set by `_connected`
        return self._open[0].run(work)


def _lost(start: Progress, ends: Progress) -> list[MessageQueue]:
    """Queues that are gone, or end before their offset in `start`."""
    return sorted(queue for queue, offset in start.items() if ends.get(queue, -1) < offset)


def _loss(queue: MessageQueue, start: Progress, ends: Progress) -> str:
    now = f"ends at offset {ends[queue]}" if queue in ends else "is gone"
    return f"{queue} {now}, and was read to offset {start[queue]}: the topic was deleted, recreated, or truncated"
