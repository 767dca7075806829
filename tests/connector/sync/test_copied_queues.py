"""What a route has copied, of the group's state."""

from __future__ import annotations

from replicator.metadata.topics import GivenUpCopies
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.routing.task_id import TaskId
from replicator.state.known_brokers import key_of, record_value
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


def test_copies_of_forgotten_brokers(setup: Setup) -> None:
    """They are where a failover looks for topics to open, unless they are not the route's any more."""
    store = setup.context.store
    for topic, brokers in (("T", "ab"), ("gone", "b"), ("parked", "b"), ("kept", "a")):
        queues = {Queue(broker, 0): Queue({"a": "x", "b": "y"}[broker], 0) for broker in brokers}
        store.save_queue_map("route", topic, f"{topic}-copy", queues)
    setup.topics.parked = {"parked": "parked-copy"}
    assert setup.task.copied.snapshot().given_up == {}
    store.put(Kind.BROKER, key_of("source", "b"), record_value(5.0, {}))
    expected = {topic: GivenUpCopies(f"{topic}-copy", {"y"}) for topic in ("T", "gone")}
    assert setup.task.copied.snapshot().given_up == expected
    assert setup.task.copied.snapshot(lambda topic: topic == "T").given_up.keys() == {"T"}
    setup.topics.is_copied = lambda topic: topic != "gone"
    assert setup.task.copied.snapshot().given_up.keys() == {"T"}
