"""A queue's printed form can be read back, whatever the broker is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue

TOPICS = st.text("abz-_%|019", min_size=1)
BROKERS = st.text("abz-_./019", min_size=1)


@given(st.builds(MessageQueue, TOPICS, BROKERS, st.integers(0, 2**31)))
def test_parse_reads_what_is_printed(queue: MessageQueue) -> None:
    assert MessageQueue.parse(str(queue)) == queue


def test_the_printed_form() -> None:
    assert str(MessageQueue("orders", "broker-a", 3)) == "orders/broker-a/3"
    assert f"{MessageQueue('orders', 'eu/broker-a', 0)}" == "orders/eu/broker-a/0"


@pytest.mark.parametrize("text", ["", "orders", "orders/broker-a", "orders//3", "/a/3", "o/a/x", "o/a/-1", "o/a/²"])
def test_parse_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match="is not topic/broker/queue_id"):
        MessageQueue.parse(text)


@given(st.builds(Queue, BROKERS, st.integers(0, 2**31)))
def test_a_queue_within_its_topic_is_printed_and_read_too(queue: Queue) -> None:
    """A broker may have a slash in its name."""
    assert Queue.parse(str(queue)) == queue


@pytest.mark.parametrize("text", ["", "a", "/3", "a/x", "a/-1", "a/²", "a/ 1"])
def test_nothing_else_is_a_queue(text: str) -> None:
    with pytest.raises(ValueError, match="is not broker/queue_id"):
        Queue.parse(text)


def test_the_queue_within_its_topic() -> None:
    assert MessageQueue("orders", "broker-a", 3).queue == Queue("broker-a", 3)


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    ordered = [
        MessageQueue("a", "x", 2),
        MessageQueue("a", "x", 10),
        MessageQueue("a", "y", 0),
        MessageQueue("b", "a", 0),
    ]
    assert sorted({*ordered}) == ordered
