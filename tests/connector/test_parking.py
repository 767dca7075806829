"""Which waiting messages are parked; and what an earlier release left is known before a queue is copied again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector import parking as module
from replicator.connector.parking import Parking
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.parked import DUE
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import Found
from replicator.settings import RouteSettings
from replicator.state.record import Kind
from replicator.state.shared_state import SharedState

QUEUE = Queue("east-a", 1)


class Store:
    def __init__(self) -> None:
        self.state = SharedState()
        self.state.worker = "w"

    def put(self, kind: Kind, key: str, value: Any) -> None:
        self.state.put(kind, key, value)


def parking(store: Store | None = None, **settings: Any) -> Parking:
    topics: Any = SimpleNamespace(name="route", is_copied=lambda topic: topic == "orders")
    context: Any = SimpleNamespace(store=store or Store(), settle_timeout=0.0)
    return Parking(topics, RouteSettings(**settings), context)


def waiting(**raw: str) -> StoredMessage:
    body = b"\x00\x00\x00\x01x"
    found = {"REAL_TOPIC": "orders", "REAL_QID": "0", "DELAY": "2", **raw}
    return StoredMessage(7, 0, 0, 0, 1_000, 0, 0, body, properties.encode(found))


def parked(made: Parking, message: StoredMessage, *, topic: str = "SCHEDULE_TOPIC_XXXX") -> StoredMessage | None:
    made._delays = {"east-a": [1_000, 5_000]}
    made._delivered.setdefault((topic, QUEUE), 0)
    return made._transform(topic, QUEUE, message)


def test_messages_of_the_route_are_parked_with_their_due_time() -> None:
    found = parked(parking(), waiting())
    assert found is not None
    assert properties.find(found.properties, DUE) == b"6000"
    assert parked(parking(), waiting(REAL_TOPIC="payments")) is None


def test_what_was_delivered_is_not_parked() -> None:
    """By its offset in a level, by its due time in a timer."""
    made = parking()
    made._delivered = {("SCHEDULE_TOPIC_XXXX", QUEUE): 8, ("rmq_sys_wheel_timer", QUEUE): 5_000}
    assert parked(made, waiting()) is None
    assert parked(made, waiting(TIMER_OUT_MS="4000"), topic="rmq_sys_wheel_timer") is None
    assert parked(made, waiting(TIMER_OUT_MS="6000"), topic="rmq_sys_wheel_timer") is not None


def test_tags() -> None:
    """As the route has them; a recall has one of its own."""
    made = parking(tags=["red"])
    assert parked(made, waiting(TAGS="red")) is not None
    assert parked(made, waiting(TAGS="blue")) is None
    assert parked(made, waiting(TAGS="_RECALL_TAG_", TIMER_DEL_UNIQKEY="AB")) is not None


@pytest.mark.parametrize(("topics", "withdrawn"), [([], True), (["orders"], True), (["payments"], False)])
async def test_what_was_released_is_read_once_after_each_release(
    topics: list[str], withdrawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a release that is not over ends, unless it is of topics that are not copied any more."""
    reads = 0

    async def find(*_: object) -> Found:
        nonlocal reads
        reads += 1
        return Found()

    monkeypatch.setattr(module, "find", find)
    monkeypatch.setattr(module, "_ENDED", 0.0)
    store = Store()
    made = parking(store)
    await made.ready()
    assert reads == 0
    for expected in (1, 2):
        store.put(Kind.SYNC, "route/release", {"by": "w", "topics": topics, "done": False})
        await made.ready()
        await made.ready()
        assert reads == expected
        assert store.state.get(Kind.SYNC, "route/release")["done"] is withdrawn
