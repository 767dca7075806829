"""How far a stream has come: its JSON, its share of a limit, queues that are new or recreated."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.message_queue import MessageQueue
from replicator.spark.source.offsets import Part
from replicator.spark.source.stream_offsets import advance, begins, of_json, parts, to_json, until

QUEUES: list[MessageQueue] = [MessageQueue("b", "broker-a", i) for i in range(11)] + [
    MessageQueue("a", "broker-b", 0)
]
offsets = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 2**40))


@given(offsets)
def test_json_there_and_back(progress: dict[MessageQueue, int]) -> None:
    """The text does not depend on the order in which queues were found."""
    told = json.dumps(to_json(progress))
    assert of_json(json.loads(told)) == progress
    assert json.dumps(to_json(dict(reversed(progress.items())))) == told


@given(offsets, offsets, st.integers(1, 2**41) | st.none())
def test_a_micro_batch_takes_what_it_may(
    start: dict[MessageQueue, int], ends: dict[MessageQueue, int], most: int | None
) -> None:
    """All, or exactly as much as it may; no queue goes back or beyond its end."""
    begin = begins(start, ends, {})
    taken = advance(begin, ends, most)
    total = sum(ends[queue] - begin[queue] for queue in ends)
    assert sum(taken[queue] - begin[queue] for queue in ends) == (total if most is None else min(total, most))
    assert all(begin[queue] <= taken[queue] <= ends[queue] for queue in ends)
    assert [part for part in parts(begin, taken) if part.end <= part.start] == []


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_no_queue_waits_for_ever(most: int) -> None:
    """While others are filled as fast as they are read, and with more queues than a micro-batch has offsets."""
    begin = dict.fromkeys(QUEUES, 0)
    ends = {queue: 1 if queue is QUEUES[-1] else 1_000_000 for queue in QUEUES}
    for _ in range(len(QUEUES)):
        taken = advance(begin, ends, most)
        ends = {queue: end + (taken[queue] - begin[queue] if end > 1 else 0) for queue, end in ends.items()}
        begin = taken
    assert all(begin.values())


def test_queues_that_are_new_or_recreated_begin_at_their_oldest() -> None:
    """The others where they were left."""
    left, recreated, new = QUEUES[:3]
    begin = begins({left: 5, recreated: 50}, {left: 9, recreated: 7, new: 8}, {recreated: 2, new: 3})
    assert begin == {left: 5, recreated: 2, new: 3}
    assert parts(begin, {left: 5, recreated: 7, new: 8}) == [
        Part(recreated.topic, recreated.queue, 2, 7),
        Part(new.topic, new.queue, 3, 8),
    ]


def test_nothing_comes_after_the_last() -> None:
    """But for what a batch has planned already."""
    left, ahead, new = QUEUES[:3]
    ends = {left: 9, ahead: 20, new: 8}
    assert until(ends, {left: 1, ahead: 15}, {left: 7, ahead: 10}) == {left: 7, ahead: 15}
