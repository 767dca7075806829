"""What the target tells of parked messages; what it does not tell now is not taken for nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector import release_scan as module
from replicator.connector.release_scan import find
from replicator.errors import Unreachable
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.parked import parked_topics
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import Found
from replicator.routing.seal import Extent, Sealer
from replicator.state.known_brokers import key_of
from replicator.state.record import Kind
from replicator.state.shared_state import SharedState

TIMER = "rmq_sys_wheel_timer"
PARKED_TIMER = parked_topics("group", "route")[TIMER]
WAITING = {"UNIQ_KEY": "AB", "TIMER_OUT_MS": "8000", "REAL_TOPIC": "orders", "REAL_QID": "0", "__RPL_DUE": "8000"}


class Target:
    """The topics of target brokers by queue 0 of each; what a broker is asked that is not there fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *brokers: str, names: dict[str, str] | None = None) -> None:
        self.stored: dict[tuple[str, str], list[StoredMessage]] = {}
        self.state = SharedState()
        self.state.worker = "w"
        self.names = names or {"orders": "orders"}
        #: By topic of the source, the target brokers of its queues.
        self.queues: dict[str, list[str]] = {}
        self.queues_from: dict[str, str] = {}
        there = [*self.names.values(), PARKED_TIMER, TIMER]
        self.topics = {broker: {name: SimpleNamespace(read_queues=1) for name in there} for broker in brokers}
        self.cluster = SimpleNamespace(master=lambda broker: broker)
        self.sealer: Sealer | None = None
        #: What the group knows to be acknowledged, of the queues of the source.
        self.acknowledged: dict[str, Any] = {}
        monkeypatch.setattr(module, "read_range", self.read_range)
        monkeypatch.setattr(module, "max_offset", self.max_offset)
        monkeypatch.setattr(module, "offset_at", self.offset_at)

    async def refresh(self) -> None:
        return None

    def put(
        self, broker: str, topic: str, raw: dict[str, str], *, source: int | None = None, at: int = 1000
    ) -> None:
        """`at`: when the source has stored it, and the target twice as late."""
        kept = self.stored.setdefault((broker, topic), [])
        if source is not None:
            raw = raw | {"__RPL_ORIGIN": "east", "__RPL_SOURCE": f"east/a/0/{source}/{at}"}
        made = properties.encode(raw)
        kept.append(StoredMessage(len(kept), 0, 0, 500, 2 * at, 0, 0, b"\x00\x00\x00\x04body", made))

    async def read_range(
        self, broker: str, topic: str, _: int, start: int, stop: int | None = None
    ) -> AsyncIterator[StoredMessage]:
        for message in self.stored.get((broker, topic), [])[start:stop]:
            yield message

    async def max_offset(self, broker: str, topic: str, _: int) -> int:
        return len(self.stored.get((broker, topic), []))

    async def offset_at(self, *_: object) -> int:
        return 0

    async def find(self, **more: Any) -> Found:
        store = SimpleNamespace(
            state=self.state,
            is_mapped=lambda _, topic: topic in self.names,
            target_topic=lambda _, topic: self.names[topic],
            progress=lambda _, key: (None, self.acknowledged.get(key)),
            whole_queue_map=lambda _, topic: {
                Queue(self.queues_from.get(broker, f"east-{broker}"), 0): Queue(broker, 0)
                for broker in self.queues.get(topic, ())
            },
        )
        barrier = SimpleNamespace(spec=DispatchBarrier, caught_up=_nothing)
        context: Any = SimpleNamespace(
            target=self,
            store=store,
            barrier=barrier,
            group="group",
            sealer=self.sealer,
            identity=SimpleNamespace(source="east", target="west"),
        )
        return await find("route", context, lambda _: True, **more)


async def _nothing(*_: object) -> None:
    return None


@pytest.mark.parametrize("topic", [TIMER, "orders"])
async def test_a_broker_that_is_not_there_is_not_taken_for_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    """A worker that has just started does not know of it: neither of what is parked nor of what is delivered."""
    target = Target(monkeypatch, "x")
    target.queues[topic] = ["x", "y"]
    target.put("x", PARKED_TIMER, WAITING, source=1)
    with pytest.raises(Unreachable, match=r"^y cannot be reached"):
        await target.find()
    target.state.put(Kind.BROKER, key_of("target", "y"), {"forgotten_at": 1.0, "resume": {}})
    assert len((await target.find()).parked) == 1
    target.queues[topic] = ["x"]
    target.queues["payments"] = ["y"]
    assert len((await target.find()).parked) == 1


async def test_released_messages_are_known_by_topic_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the topic at the source, whatever it is called at the target: in the topic, and in the timer."""
    target = Target(monkeypatch, "x", names={"orders": "east-orders"})
    target.put("x", PARKED_TIMER, WAITING, source=1)
    target.put("x", "east-orders", {"UNIQ_KEY": "AC", "__RPL_RELEASED": "east/timer/a/0/8/1"})
    own = {"UNIQ_KEY": "AD", "REAL_TOPIC": "east-orders", "__RPL_RELEASED": "east/timer/a/0/9/1"}
    target.put("x", TIMER, own)
    found = await target.find()
    assert found.released == {"east/timer/a/0/8/1", "east/timer/a/0/9/1"}
    assert found.released_keys == {("orders", b"AC"), ("orders", b"AD")}


async def test_what_another_route_released_is_a_copy_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a group has failed on has all properties of the message that was released at the source."""
    target = Target(monkeypatch, "x")
    theirs = WAITING | {"__RPL_RELEASED": "west/timer/a/0/8/1"}
    target.put("x", PARKED_TIMER, theirs, source=1)
    delivered = {name: theirs[name] for name in ("UNIQ_KEY", "TIMER_OUT_MS", "__RPL_RELEASED")}
    target.put("x", "orders", {**delivered, "__RPL_ORIGIN": "east", "__RPL_SOURCE": "east/a/0/5/8001"})
    found = await target.find()
    assert not found.released
    assert found.delivered["orders"] == {found.parked[0].fingerprint: 1}


async def test_a_copy_is_no_released_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a producer at the source has written into it."""
    target = Target(monkeypatch, "x")
    target.put("x", PARKED_TIMER, WAITING, source=8)
    target.put("x", "orders", {"UNIQ_KEY": "AB", "__RPL_RELEASED": "east/timer/a/0/8/1000"}, source=9)
    found = await target.find()
    assert found.released == set()
    assert found.released_keys == set()


SEALER = Sealer("a secret of the group, long enough", "west")
DELIVERED = {"UNIQ_KEY": "AB", "TIMER_OUT_MS": "8000"}


def sealed(
    first: int, last: int, count: int, topic: str = "orders", *, at: int = 1000, first_at: int = 0
) -> dict[str, str]:
    """The seal of a batch, as a property of its first message; the source has stored the newest of it at `at`."""
    raw = SEALER.seal(topic, b"east/a/0/%d/%d" % (first, first_at or at), Extent(last, count, at))
    return properties.decode(raw)


def signed(monkeypatch: pytest.MonkeyPatch) -> Target:
    """Of a group with a secret, that has parked AB."""
    target = Target(monkeypatch, "x")
    target.sealer = SEALER
    target.queues["orders"], target.queues_from["x"] = ["x"], "a"
    target.put("x", PARKED_TIMER, WAITING | sealed(8, 8, 1, PARKED_TIMER), source=8)
    return target


@pytest.mark.parametrize("place", ["orders", TIMER])
async def test_with_a_secret_only_this_group_releases(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """What somebody else calls released would never be sent."""
    target = signed(monkeypatch)
    forged = {"UNIQ_KEY": "AB", "REAL_TOPIC": "orders", "__RPL_RELEASED": "east/timer/a/0/8/1000"}
    target.put("x", place, forged)
    assert (await target.find()).released == set()
    ours = properties.decode(SEALER.seal_release(b"east/timer/a/0/8/1000", b"AB"))
    target.put("x", place, forged | ours)
    assert (await target.find()).released == {"east/timer/a/0/8/1000"}


async def test_with_a_secret_only_this_group_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy counts that its seal proves, or that was acknowledged at its place; none that others put there."""
    target = signed(monkeypatch)

    async def delivered() -> int:
        found = await target.find()
        return found.delivered["orders"][found.parked[0].fingerprint]

    target.put("x", "orders", DELIVERED, source=20)
    assert await delivered() == 0
    target.put("x", "orders", {"UNIQ_KEY": "AC"} | sealed(21, 23, 2), source=21)
    target.put("x", "orders", DELIVERED, source=23)
    assert await delivered() == 1
    target.put("x", "orders", DELIVERED, source=30)
    assert await delivered() == 1
    target.acknowledged["route/orders/a/0"] = {"target": ["x", 0], "intervals": [[30, 3, 1]]}
    target.put("x", "orders", DELIVERED, source=30)
    assert await delivered() == 2
    target.acknowledged["route/orders/a/0"]["target"] = ["gone", 0]
    assert await delivered() == 1, "that is about another queue"


async def test_a_batch_that_was_read_in_parts_is_believed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues are read backwards: the seal of what is read first stands before it."""
    target = signed(monkeypatch)
    monkeypatch.setattr(module, "_STEP", 2)
    target.put("x", "orders", {"UNIQ_KEY": "AC"} | sealed(21, 30, 10), source=21)
    for source in range(22, 30):
        target.put("x", "orders", {"UNIQ_KEY": f"{source}", "DELAY": "3"}, source=source)
    target.put("x", "orders", DELIVERED, source=30)
    target.put("x", "orders", DELIVERED, source=31)
    found = await target.find()
    assert found.delivered["orders"][found.parked[0].fingerprint] == 1
    assert found.delivered["orders"].total() == 9


async def test_a_batch_that_begins_before_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first messages are older than all that waits; its seal is looked for nevertheless."""
    target, late = signed(monkeypatch), 10**9
    monkeypatch.setattr(module, "_STEP", 3)
    target.stored.clear()
    parked = WAITING | {"__RPL_DUE": f"{late}"}
    target.put("x", PARKED_TIMER, parked | sealed(8, 8, 1, PARKED_TIMER, at=late), source=8, at=late)
    for source in range(15, 20):
        target.put("x", "orders", {"UNIQ_KEY": "AC"} | sealed(source, source, 1), source=source)
    target.put("x", "orders", {"UNIQ_KEY": "AC"} | sealed(20, 25, 6, at=late, first_at=1000), source=20)
    for source in range(21, 25):
        target.put("x", "orders", {"UNIQ_KEY": "AC"}, source=source)
    target.put("x", "orders", DELIVERED, source=25, at=late)
    found = await target.find()
    assert found.delivered["orders"][found.parked[0].fingerprint] == 1


async def test_what_a_route_does_not_select_by_its_tags_any_more_is_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was parked before they were changed. A recall has a tag of its own; what a transform retagged had one."""
    target = Target(monkeypatch, "x")
    for number, tag in enumerate(("red", "blue")):
        target.put("x", PARKED_TIMER, WAITING | {"TAGS": tag}, source=number)
    masked = {"TAGS": "masked", "__RPL_RETAGGED": "1"}
    target.put("x", PARKED_TIMER, {"TAGS": "_RECALL_", "TIMER_DEL_UNIQKEY": "orders+AB"}, source=3)
    assert len((await target.find()).parked) == 2
    found = await target.find(tags=frozenset({b"red"}))
    assert len(found.parked) == 1
    assert found.recalled == {b"orders+AB"}
    target.put("x", PARKED_TIMER, WAITING | masked, source=4)
    assert len((await target.find(tags=frozenset({b"red"}))).parked) == 2


async def test_only_those_brokers_are_asked_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those that are there nor those that are not."""
    target = Target(monkeypatch, "x", "y")
    target.queues["orders"] = ["x", "z"]
    for number, broker in enumerate("xy"):
        target.put(broker, PARKED_TIMER, WAITING, source=number)
        target.put(broker, "orders", {"UNIQ_KEY": broker, "__RPL_RELEASED": f"east/timer/a/0/{number}/1"})
    found = await target.find(brokers={"x"})
    assert len(found.parked) == 1
    assert found.released == {"east/timer/a/0/0/1"}
