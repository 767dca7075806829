"""A topic's record is read once, for all its queues."""

from __future__ import annotations

from replicator.routing.queue_map import Queue
from replicator.state.topic_record import TopicRecord


def test_all_that_a_record_says() -> None:
    """With what only a topic has whose target broker was given up."""
    record = TopicRecord.of(
        {
            "target_topic": "orders",
            "queues": {"a/x/0": "b/1", "a/x/1": "c/0"},
            "late": ["a/x/1"],
            "fresh": ["a/x/0"],
            "moved": {"a/x/1": "skip"},
            "left": ["b/2"],
        }
    )
    assert record.queues == {Queue("a/x", 0): Queue("b", 1), Queue("a/x", 1): Queue("c", 0)}
    assert (set(record.late), set(record.fresh)) == ({Queue("a/x", 1)}, {Queue("a/x", 0)})
    assert (dict(record.moved), set(record.left)) == ({Queue("a/x", 1): "skip"}, {Queue("b", 2)})


def test_one_of_before_brokers_could_be_given_up() -> None:
    """It says nothing of what was moved."""
    record = TopicRecord.of({"queues": {}, "late": [], "fresh": []})
    assert not record.moved
    assert not record.left
