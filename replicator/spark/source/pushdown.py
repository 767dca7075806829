"""Filters that Spark hands down: which queues, and which of their offsets, can hold rows that pass."""

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

#: Requests made at the same time.
_AT_ONCE: Final = 32

#: Spark asks for readers in a process that runs this module where the session lets filters be pushed down; a reader
#: that could take filters is refused anywhere else (DATA_SOURCE_PUSHDOWN_DISABLED). Source: PySpark 4.3.
_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def is_wanted() -> bool:
    """Whether the session lets filters be pushed down; to be asked where readers are made."""
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _WORKER in sys.modules or (program is not None and program.name == _WORKER)


class Narrowing:
    """What filters leave of parts of queues.

    By topic, broker, queue and offset exactly; by store time as brokers find times, so that Spark looks again.
    """

    def __init__(self) -> None:
        self._offsets = _Taken()
        self._times = _Taken()
        self._wanted: dict[str, set[object]] = {}

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Takes what it can; gives those that Spark must still apply to the rows."""
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
        """What is left of `parts`; errors as those of `offset_at`."""
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
    """Those of filters."""

    def take(self, each: Filter) -> bool:
        """Whether it says just that."""
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
    """1 where `_floor` has rounded nothing off."""
    return int(not isinstance(value, datetime) or value.microsecond % 1000 == 0)
