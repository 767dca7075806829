"""What filters leave of a queue, without a broker: never less than what passes, of offsets no more either."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from replicator.client.cluster import Cluster
from replicator.routing.queue_map import Queue
from replicator.spark.source import offsets
from replicator.spark.source.offsets import Part
from replicator.spark.source.pushdown import Narrowing

PART = Part("t", Queue("a", 1), 20, 60)
CLUSTER = cast("Cluster", SimpleNamespace(reader=lambda broker: broker))
Kind = tuple[Callable[..., Filter], Callable[[Any, Any], bool]]
KINDS: list[Kind] = [
    (EqualTo, operator.eq),
    (GreaterThan, operator.gt),
    (GreaterThanOrEqual, operator.ge),
    (LessThan, operator.lt),
    (LessThanOrEqual, operator.le),
]
#: When a message at offset 0 would have been stored, in milliseconds since the epoch.
BASE = 1_763_820_000_100
START = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=BASE)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 80)), max_size=4))
async def test_offsets_are_exact(chosen: list[tuple[Kind, int]]) -> None:
    """All of them are taken, so Spark looks no more."""
    narrowing = Narrowing()
    assert list(narrowing.take([make(("queueOffset",), value) for (make, _), value in chosen])) == []
    (part,) = await narrowing.of(CLUSTER, [PART])
    wanted = [at for at in range(20, 60) if all(holds(at, value) for (_, holds), value in chosen)]
    assert list(range(part.start, part.end)) == wanted
    assert 20 <= part.start <= part.end <= 60


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(19_000, 61_000)), min_size=1, max_size=3))
async def test_times_leave_what_passes(chosen: list[tuple[Kind, int]]) -> None:
    """A message a millisecond, filters in microseconds; Spark looks again at each."""
    filters = [make(("storeTimestamp",), START + timedelta(microseconds=at)) for (make, _), at in chosen]
    narrowing = Narrowing()
    assert list(narrowing.take(filters)) == filters
    with pytest.MonkeyPatch.context() as patch:

        async def offset_at(_broker: str, _topic: str, _queue: int, time: int) -> int:
            return min(max(time - BASE, 20), 60)

        patch.setattr(offsets, "offset_at", offset_at)
        (part,) = await narrowing.of(CLUSTER, [PART])
    wanted = {at for at in range(20, 60) if all(holds(1000 * at, value) for (_, holds), value in chosen)}
    assert wanted <= set(range(part.start, part.end))
    assert part.end - part.start <= len(wanted) + 2


@pytest.mark.parametrize(
    ("filters", "is_left"),
    [
        ([EqualTo(("queueId",), 1), EqualTo(("brokerName",), "a"), EqualTo(("topic",), "t")], True),
        ([EqualTo(("queueId",), 2)], False),
        ([EqualTo(("brokerName",), "b")], False),
        ([EqualTo(("topic",), "u")], False),
        ([In(("queueId",), (1, 2)), In(("queueId",), (1, 3))], True),
        ([In(("queueId",), (1, 2)), In(("queueId",), (2, 3))], False),
    ],
)
async def test_queues_are_left_out(filters: list[Filter], is_left: bool) -> None:
    narrowing = Narrowing()
    assert list(narrowing.take(filters)) == []
    (part,) = await narrowing.of(CLUSTER, [PART])
    assert part == (PART if is_left else PART._replace(end=PART.start))


async def test_what_cannot_be_taken_is_left_to_spark() -> None:
    filters: list[Filter] = [
        Not(EqualTo(("queueOffset",), 3)),
        IsNotNull(("queueOffset",)),
        In(("queueOffset",), (3, 4)),
        GreaterThan(("queueId",), 0),
        EqualTo(("tags",), "x"),
    ]
    narrowing = Narrowing()
    assert list(narrowing.take(filters)) == filters
    assert await narrowing.of(CLUSTER, [PART]) == [PART]
