"""What a route has copied, of the group's state."""

from __future__ import annotations

from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.routing.task_id import TaskId
from replicator.state.record import Kind
from tests.connector.sync.conftest import Setup


def test_which_topics_were_made_for_the_route(setup: Setup) -> None:
    """Those that were at the target before are not ours to change."""
    queues = {Queue("a", 0): Queue("x", 0), Queue("a", 1): Queue("y", 0)}
    setup.context.store.save_queue_map("route", "T", "T", queues, fresh=[Queue("a", 1)])
    copy = setup.task.copied.snapshot()
    assert (copy.made("T"), copy.made("other"), copy.brokers) == ({"y"}, set(), {"T": {"a"}})


def test_what_is_known_of_queues_that_are_gone_is_forgotten(setup: Setup) -> None:
    """There may be thousands of topics that come and go, over the years."""
    store, queue = setup.context.store, Queue("a", 0)
    for topic in ("T", "U"):
        store.save_queue_map("route", topic, topic, {queue: Queue("x", 0)})
        state = QueueState(topic, queue, Queue("x", 0), route="route")
        state.progress.position = 1
        store.update([state])
        assert setup.task.copied.snapshot().queue(topic, queue) is not None
    assert len(setup.task.copied._maps) == 2
    store.put(Kind.TASK, str(TaskId("route", "T")), None)
    setup.task.copied.snapshot()
    assert len(setup.task.copied._maps) == 1
