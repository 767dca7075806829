"""Filters that Spark pushes down: they select the queues, and the offsets, that can have rows that pass."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from replicator.aio.bounded import bounded
from replicator.client.cluster import Cluster
from replicator.settings import milliseconds
from replicator.spark.source.offsets import Limits, Part, within

__all__ = ["Narrowing", "is_wanted"]

#: Concurrent requests.
_AT_ONCE: Final = 32

#: If the session allows filter pushdown, Spark creates readers in a process that runs this module; anywhere else it
#: refuses a reader that accepts filters (DATA_SOURCE_PUSHDOWN_DISABLED). Source: PySpark 4.3.
_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def is_wanted() -> bool:
    """Whether the session allows filter pushdown; call it where readers are created."""
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _WORKER in sys.modules or (program is not None and program.name == _WORKER)


class Narrowing:
    """Narrows parts of queues by filters.

    By topic, broker, queue and offset it is exact; by store time as precise as brokers find offsets by time, so
    Spark filters the rows again.
    """

    def __init__(self) -> None:
        self._offsets = _Taken()
        self._times = _Taken()
        self._wanted: dict[str, set[object]] = {}

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Accepts the filters that it can apply; returns those that Spark must still apply to the rows."""
        for each in filters:
            (name, *_) = getattr(each, "attribute", ("",))
            if name == "queueOffset" and self._offsets.take(each):
                continue
            if name in ("topic", "brokerName", "queueId") and self._take_names(name, each):
                continue
            if name == "storeTimestamp":
                self._times.take(each)
            yield each

    def _take_names(self, name: str, each: Filter) -> bool:
        if isinstance(each, EqualTo):
            values = {each.value}
        elif isinstance(each, In):
            values = set(each.value)
        else:
            return False
        self._wanted[name] = self._wanted.get(name, values) & values
        return True

    async def of(self, cluster: Cluster, parts: Sequence[Part]) -> list[Part]:
        """The narrowed `parts`; raises the errors of `offset_at`."""
        return await bounded(lambda part: self._narrowed(cluster, part), parts, at_once=_AT_ONCE)

    async def _narrowed(self, cluster: Cluster, part: Part) -> Part:
        for name, value in (
            ("topic", part.topic),
            ("brokerName", part.queue.broker),
            ("queueId", part.queue.queue_id),
        ):
            if value not in self._wanted.get(name, {value}):
                return part._replace(end=part.start)
        return await within(cluster.reader(part.queue.broker), part, self._offsets, self._times)


class _Taken(Limits):
    """Limits from filters."""

    def take(self, each: Filter) -> bool:
        """Applies a filter; false if its kind is not supported."""
        if isinstance(each, EqualTo):
            self._within(_floor(each.value), _floor(each.value) + 1)
        elif isinstance(each, GreaterThan):
            self._within(_floor(each.value) + _whole(each.value), None)
        elif isinstance(each, GreaterThanOrEqual):
            self._within(_floor(each.value), None)
        elif isinstance(each, LessThan):
            self._within(None, _floor(each.value) + 1 - _whole(each.value))
        elif isinstance(each, LessThanOrEqual):
            self._within(None, _floor(each.value) + 1)
        else:
            return False
        return True

    def _within(self, low: int | None, high: int | None) -> None:
        if low is not None:
            self.low = max(self.low or 0, low)
        if high is not None:
            self.high = high if self.high is None else min(self.high, high)


def _floor(value: Any) -> int:
    """A number, or a time in milliseconds since the epoch, rounded down."""
    return milliseconds(value) if isinstance(value, datetime) else int(value)


def _whole(value: Any) -> int:
    """1 if `_floor` did not round, else 0."""
    return int(not isinstance(value, datetime) or value.microsecond % 1000 == 0)
