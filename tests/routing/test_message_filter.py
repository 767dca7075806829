"""Which messages of a source queue are copied."""

from __future__ import annotations

import pytest

from replicator.protocol.message import StoredMessage
from replicator.routing.message_filter import select
from replicator.routing.options import Identity, RouteOptions

OPTIONS = RouteOptions(identity=Identity("east", "west"))


@pytest.mark.parametrize(("topic", "passes"), [("%RETRY%g", True), ("orders", False)])
def test_a_waiting_retry_of_a_copy_is_parked_where_that_was_born(topic: str, *, passes: bool) -> None:
    """As it is copied from its retry topic once it is due. What waits and is a copy itself is there already."""
    copy = b"__RPL_ORIGIN\x01west\x02__RPL_SOURCE\x01west/a/0/1/2\x02"
    raw = copy + b"REAL_TOPIC\x01" + topic.encode() + b"\x02"
    waiting = StoredMessage(0, 0, 0, 0, 700, 1, 0, bytes(4), raw)
    kept, _ = select([waiting], OPTIONS, "SCHEDULE_TOPIC_XXXX")
    assert len(kept) == passes
