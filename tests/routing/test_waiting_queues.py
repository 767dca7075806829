"""Queues that wait for the same thing: one line for those that nobody knows one by one."""

from __future__ import annotations

from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.routing.waiting_queues import WaitingQueues

AWAY = "WAITING", "the source broker is away"


def queues(topic: str, broker: str = "a") -> list[QueueState]:
    return [QueueState(topic, Queue(broker, i), Queue("b", i)) for i in range(18)]


def test_each_queue_of_a_topic_is_told_of() -> None:
    waiting = WaitingQueues()
    assert all(waiting.begin(queue, AWAY) for queue in queues("orders"))
    assert all(waiting.end(queue) for queue in queues("orders"))
    assert waiting.name(queues("orders")[0]) == {}


def test_those_of_waiting_messages_are_told_of_once() -> None:
    """For each broker and reason, and once that all go on."""
    waiting, held = WaitingQueues(), queues("SCHEDULE_TOPIC_XXXX")
    assert waiting.name(held[3]) == {"queue": "SCHEDULE_TOPIC_XXXX/a"}
    assert [waiting.begin(queue, AWAY) for queue in held] == [True] + [False] * 17
    assert waiting.begin(queues("SCHEDULE_TOPIC_XXXX", "c")[0], AWAY)
    assert waiting.begin(held[0], ("WAITING", "it refuses"))
    assert [waiting.end(queue) for queue in held] == [False] * 17 + [True]
    assert waiting.begin(held[5], AWAY)
