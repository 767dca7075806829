"""Where rows go, and what is waited for before any goes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.topics import TopicConfig
from replicator.routing.message_queue import MessageQueue
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue
from replicator.spark.source import datasource, queue_writer, sender
from replicator.spark.source.datasource import _Writer
from replicator.spark.source.queue_writer import Message, QueueWriter
from replicator.spark.source.row_encoder import Row
from replicator.spark.source.sender import Sender


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its brokers a, b and c have four queues of each topic."""

    async def read_topics(_broker: object) -> Any:
        return SimpleNamespace(topics={"T": TopicConfig(name="T", read_queues=4, write_queues=4)})

    monkeypatch.setattr(sender, "read_topics", read_topics)
    return SimpleNamespace(brokers=lambda: dict.fromkeys("abc"), master=str)


async def test_all_tasks_choose_among_the_same_queues(cluster: Any) -> None:
    """Also those that begin once a broker was added: else a sharding key would go to two queues."""
    rows = [Row("T", b"x", b"__SHARDINGKEY\x01%d\x02" % i) for i in range(50)]
    for brokers in ({"a"}, {"a", "b"}):
        chosen = [await Sender(cluster, settle=False, brokers=brokers)._queue_of(row, None) for row in rows]
        assert {queue.broker for queue in chosen} == brokers


async def test_a_row_may_name_a_queue_of_a_broker_that_was_added(cluster: Any) -> None:
    row = Row("T", b"x", b"", broker="c", queue_id=3)
    assert await Sender(cluster, settle=False, brokers={"a"})._queue_of(row, None) == Queue("c", 3)


async def test_a_queue_settles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many source queues have rows for it."""
    waited: list[object] = []

    async def waits(place: object, *_: object, **__: object) -> None:
        waited.append(place)

    async def read_tail(*_: object, **__: object) -> Any:
        return SimpleNamespace(end=0, last=None)

    monkeypatch.setattr(queue_writer, "read_tail", read_tail)
    monkeypatch.setattr(queue_writer, "read_on", waits)
    monkeypatch.setattr(queue_writer, "_SETTLE", 0.001)
    barrier: Any = SimpleNamespace(caught_up=waits)
    cluster: Any = SimpleNamespace(master=str)
    writer = QueueWriter(cluster, MessageQueue("T", "x", 0), limit=1, barrier=barrier, settle=True)
    for number in range(5):
        source = Provenance("east", "east", "a", number, 7, 7)
        assert not await writer._is_there(Message(b"", source))
    assert waited == ["x", "x"]


def test_the_first_attempt_settles_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may follow a write that was aborted a moment ago."""
    given: list[Any] = []

    async def brokers(_options: object) -> frozenset[str]:
        return frozenset("a")

    async def write(_options: object, _batches: object, **more: object) -> None:
        given.append(more)

    monkeypatch.setattr(datasource, "_brokers", brokers)
    monkeypatch.setattr(datasource, "_write", write)
    options: Any = None
    _Writer(options).write(iter([]))
    assert given == [{"brokers": frozenset("a"), "settle": True}]
