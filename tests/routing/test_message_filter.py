"""Which messages of a source queue are copied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator.protocol.message import StoredMessage
from replicator.routing.message_filter import select
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.parked import ReleasedMessages, fingerprint
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueCounters

OPTIONS = RouteOptions(identity=Identity("east", "west"))


@pytest.mark.parametrize(("topic", "passes"), [("%RETRY%g", True), ("orders", False)])
def test_a_waiting_retry_of_a_copy_is_parked_where_that_was_born(topic: str, *, passes: bool) -> None:
    """As it is copied from its retry topic once it is due. What waits and is a copy itself is there already."""
    copy = b"__RPL_ORIGIN\x01west\x02__RPL_SOURCE\x01west/a/0/1/2\x02"
    raw = copy + b"REAL_TOPIC\x01" + topic.encode() + b"\x02"
    waiting = StoredMessage(0, 0, 0, 0, 700, 1, 0, bytes(4), raw)
    kept, _ = select([waiting], OPTIONS, MessageQueue("SCHEDULE_TOPIC_XXXX", "a", 0))
    assert len(kept) == passes


def test_what_was_released_is_known_by_what_the_transforms_make_of_it() -> None:
    """It went through them before it was parked; that it is left out counts as that, and not as theirs."""
    raw = b"UNIQ_KEY\x01%b\x02DELAY\x013\x02"
    first, second = (
        StoredMessage(at, 0, 0, 0, 700, 0, 0, b"\0\0\0\1x", raw % key) for at, key in enumerate((b"A", b"B"))
    )
    seen: list[MessageQueue] = []

    def transform(topic: str, queue: Queue, message: StoredMessage) -> StoredMessage:
        seen.append(MessageQueue(topic, *queue))
        return message.with_content(b"masked", sys_flag=0)

    queue = MessageQueue("orders", "a", 4)
    print_ = fingerprint(transform("orders", queue.queue, first))
    assert print_ is not None
    known = ReleasedMessages()
    options = replace(OPTIONS, transform=transform, released=known)
    assert select([first, second], options, queue)[0] == [first, second]
    known.know("orders", [print_])
    counters = QueueCounters()
    assert select([first, second], options, queue, counters)[0] == [second]
    assert counters.skipped == {"released": 1}
    assert {*seen} == {queue}
