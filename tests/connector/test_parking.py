"""Which waiting messages are parked; and what an earlier release left is known before a queue is copied again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from replicator.client.pull import EVERYTHING, Subscription
from replicator.connector import parking as module
from replicator.connector.parking import Parking
from replicator.errors import Unreachable
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.faults import TransformRefused
from replicator.routing.options import Identity, RouteOptions, Transform
from replicator.routing.parked import Place, read_parked
from replicator.routing.provenance import DUE, RETAGGED
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

        #: By topic of the source, the target broker of its queue of each source broker.
        self.brokers = {
            "SCHEDULE_TOPIC_XXXX": {"east-a": "a", "east-b": "b"},
            "orders": {"east-a": "c", "east-b": "c"},
        }

    def put(self, kind: Kind, key: str, value: Any) -> None:
        self.state.put(kind, key, value)

    def whole_queue_map(self, _: str, topic: str) -> dict[Queue, Queue]:
        return {Queue(source, 1): Queue(target, 1) for source, target in self.brokers.get(topic, {}).items()}


def parking(store: Store | None = None, **settings: Any) -> Parking:
    topics: Any = SimpleNamespace(name="route", is_copied=lambda topic: topic == "orders")
    context: Any = SimpleNamespace(store=store or Store(), settle_timeout=0.0)
    return Parking(topics, RouteSettings(**settings), context)


def waiting(**raw: str) -> StoredMessage:
    body = b"\x00\x00\x00\x01x"
    found = {"REAL_TOPIC": "orders", "REAL_QID": "0", "DELAY": "2", **raw}
    return StoredMessage(7, 0, 0, 0, 1_000, 0, 0, body, properties.encode(found))


def parked(
    made: Parking,
    message: StoredMessage,
    *,
    topic: str = "SCHEDULE_TOPIC_XXXX",
    transform: Transform | None = None,
) -> StoredMessage | None:
    made._delays = {"east-a": [1_000, 5_000]}
    made._delivered.setdefault((topic, QUEUE), 0)
    options = RouteOptions(identity=Identity("east", "west"), transform=transform)
    park = made.options(options).transform
    assert park is not None
    return park(topic, QUEUE, message)


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


def given(changed: Callable[[StoredMessage], StoredMessage | None]) -> Transform:
    """A route's transforms, which see a message as it will be delivered."""

    def transform(topic: str, queue: Queue, message: StoredMessage) -> StoredMessage | None:
        assert (topic, queue) == ("orders", Queue("east-a", 4))
        assert (message.queue_offset, message.store_timestamp) == (-1, -1)
        return changed(message)

    return transform


def test_what_waits_goes_through_the_routes_transforms() -> None:
    """Its place and its due time stay those of the waiting message; what they leave out is not parked."""
    message = waiting(REAL_QID="4", TAGS="red")
    masked = given(lambda m: m.with_content(b"masked", sys_flag=0))
    found = parked(parking(tags=["red"]), message, transform=masked)
    assert found is not None
    assert (found.content, found.queue_offset, found.store_timestamp) == (b"masked", 7, 1_000)
    assert properties.decode(found.properties) == properties.decode(message.properties) | {"__RPL_DUE": "6000"}
    assert parked(parking(), message, transform=given(lambda m: None)) is None
    assert parked(parking(tags=["blue"]), message, transform=masked) is None


def test_a_changed_tag_is_noted() -> None:
    """What is released is selected by the source's tags, which the parked message has no more."""
    message = waiting(REAL_QID="4", TAGS="red")

    def retag(m: StoredMessage) -> StoredMessage:
        return replace(m, properties=m.properties.replace(b"TAGS\x01red", b"TAGS\x01masked"))

    found = parked(parking(tags=["red"]), message, transform=given(retag))
    assert found is not None
    assert properties.find(found.properties, b"TAGS") == b"masked"
    assert properties.find(found.properties, RETAGGED) == b"1"


def test_recalls_go_through_no_transform() -> None:
    """But with what takes a message back alone: anyone may send one, and it would be where nothing unmasked is."""
    recall = waiting(TIMER_DEL_UNIQKEY="orders+AB", REAL_QID="4", KEYS="secret")
    found = parked(parking(), recall, transform=given(lambda m: None))
    assert found is not None
    due = {"__RPL_DUE": "6000"}
    kept = {"TIMER_DEL_UNIQKEY": "orders+AB", "REAL_TOPIC": "orders", "REAL_QID": "4"}
    assert (found.content, properties.decode(found.properties)) == (b"0", due | kept)
    unchanged = parked(parking(), recall)
    assert unchanged is not None
    assert unchanged.content == recall.content


@pytest.mark.parametrize("name", ["UNIQ_KEY", "DELAY", "TIMER_OUT_MS"])
@pytest.mark.parametrize("instead", [b"", b"7"])
def test_a_transform_may_not_hide_which_message_waits(name: str, instead: bytes) -> None:
    """Or its delivered copy could not be told from it: it would come twice, or a recalled one would come."""
    message = waiting(REAL_QID="4", UNIQ_KEY="AB", TIMER_OUT_MS="9000")

    def hide(m: StoredMessage) -> StoredMessage:
        rest = properties.without(m.properties, [name.encode()])
        return replace(m, properties=rest + (b"%b\x01%b\x02" % (name.encode(), instead) if instead else b""))

    with pytest.raises(TransformRefused, match=f"property {name} is changed"):
        parked(parking(), message, transform=given(hide))


@pytest.mark.parametrize(("topics", "withdrawn"), [([], True), (["orders"], True), (["payments"], False)])
async def test_what_was_released_is_read_once_after_each_release(
    topics: list[str], withdrawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a release that is not over ends, unless it is of topics that are not copied any more."""
    reads = 0

    async def find(*_: object, **__: object) -> Found:
        nonlocal reads
        reads += 1
        return Found()

    monkeypatch.setattr(module, "find", find)
    monkeypatch.setattr(module, "_ENDED", 0.0)
    store = Store()
    made = parking(store)
    await made.ready("orders", QUEUE)
    assert reads == 0
    for expected in (1, 2):
        store.put(Kind.SYNC, "route/release", {"by": "w", "topics": topics, "done": False})
        await made.ready("orders", QUEUE)
        await made.ready("orders", QUEUE)
        assert reads == expected
        assert store.state.get(Kind.SYNC, "route/release")["done"] is withdrawn


async def test_a_broker_that_is_away_holds_back_what_it_has_something_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a source broker: its waiting messages, and the queue that they go to."""
    read: list[list[str]] = []
    is_back = asyncio.Event()

    async def find(*_: object, brokers: frozenset[str]) -> Found:
        read.append(sorted(brokers))
        if "b" in brokers and not is_back.is_set():
            raise Unreachable("b", "away")
        return Found()

    monkeypatch.setattr(module, "find", find)
    monkeypatch.setattr(module, "_ENDED", 0.0)
    monkeypatch.setattr(module, "_BACKOFF_FIRST", 0.0)
    store = Store()
    store.put(Kind.SYNC, "route/release", {"by": "w", "topics": [], "done": False})
    made = parking(store)
    waits = asyncio.create_task(made.ready("orders", Queue("east-b", 1)))
    await asyncio.sleep(0)
    await made.ready("orders", QUEUE)
    assert store.state.get(Kind.SYNC, "route/release")["done"]
    assert not waits.done()
    is_back.set()
    await waits
    assert read[-1] == ["b", "c"]
    assert read.count(["a", "c"]) == 1
    before = len(read)
    for queue in (QUEUE, Queue("east-b", 1)):  # that the first one has withdrawn the order is nothing new
        await made.ready("orders", queue)
    assert len(read) == before


async def test_what_is_released_meanwhile_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another failover, while the queues of this one's end wait."""
    reads = 0

    async def find(*_: object, **__: object) -> Found:
        nonlocal reads
        reads += 1
        if reads == 1:
            store.put(Kind.SYNC, "route/release", {"by": "w2", "topics": [], "done": True})
        return Found()

    monkeypatch.setattr(module, "find", find)
    store = Store()
    store.put(Kind.SYNC, "route/release", {"by": "w", "topics": [], "done": True})
    await parking(store).ready("orders", QUEUE)
    assert reads == 2


async def test_of_an_order_of_everything_and_of_topics_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the route copies again is left to the source; what was switched before is still to be released."""

    async def find(*_: object, **__: object) -> Found:
        return Found()

    monkeypatch.setattr(module, "find", find)
    monkeypatch.setattr(module, "_ENDED", 0.0)
    store = Store()
    store.put(Kind.SYNC, "route/release", {"by": "w", "topics": ["", "orders", "payments"], "done": False})
    await parking(store).ready("orders", QUEUE)
    assert store.state.get(Kind.SYNC, "route/release") == {"by": "w", "topics": ["payments"], "done": False}


async def test_what_was_released_before_the_timer_put_it_back_is_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though the record that the released copy names is gone."""
    raw = {"UNIQ_KEY": "AB", "TIMER_OUT_MS": "9000", "REAL_TOPIC": "orders", "REAL_QID": "0"}
    copy = {"TIMER_ROLL_TIMES": "1", "__RPL_DUE": "9000", "__RPL_ORIGIN": "e", "__RPL_SOURCE": "e/east-a/0/1/2"}
    body = b"\x00\x00\x00\x01x"
    delivered, again = (
        StoredMessage(7, 0, 0, 0, 1_000, 0, 0, body, properties.encode(each)) for each in (raw, raw | copy)
    )
    put_back = read_parked(again, "timer", Place("parked", QUEUE, 7))
    assert put_back is not None

    async def find(*_: object, **__: object) -> Found:
        return Found([put_back], released={"e/timer/gone"}, released_keys={("orders", b"AB")})

    monkeypatch.setattr(module, "find", find)
    store = Store()
    store.put(Kind.SYNC, "route/release", {"by": "w", "topics": [], "done": True})
    made = parking(store)
    await made.ready("orders", QUEUE)
    assert made.released.others("orders", [delivered]) == []


def test_the_source_filters_by_sql_and_lets_recalls_pass() -> None:
    """Not by tags, for which its consume queue has due times."""
    by_sql = RouteOptions(
        identity=Identity("east", "west"), subscription=Subscription("SQL92", "a = 1 OR b"), settle_timeout=0.0
    )
    found = parking().options(by_sql).subscription
    assert found == Subscription("SQL92", "(a = 1 OR b) OR TIMER_DEL_UNIQKEY IS NOT NULL")
    by_tags = RouteOptions(
        identity=Identity("east", "west"), subscription=Subscription("TAG", "a || b"), settle_timeout=0.0
    )
    assert parking().options(by_tags).subscription == EVERYTHING
