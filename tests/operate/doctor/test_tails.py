"""What is said of the ends of queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.pull import Pulled, Subscription
from replicator.operate.doctor import tails
from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.tails import Tail, examine_tails, judge_tails
from replicator.protocol.message import StoredMessage
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings, load
from tests.operate.doctor.healthy import HEALTHY, healthy

HOUR = 3_600_000
#: Milliseconds.
NOW = 1000 * HOUR


def tail(queue_id: int = 0, **more: Any) -> Tail:
    return Tail(source=MessageQueue("orders", "a", queue_id), target_topic="copy", **more)


def judged(*tails: Tail, **settings: str) -> list[Finding]:
    found = judge_tails(tails, Identity("east", "west"), {"a": healthy(**settings)}, now=NOW / 1000)
    return [*found]


def odd(*tails: Tail, **settings: str) -> list[Finding]:
    return [each for each in judged(*tails, **settings) if each.level is not Level.OK]


def test_a_first_start() -> None:
    """Nothing is there, so nothing can be lost."""
    assert odd(tail(), tail(1, source_min=1000)) == []


def test_a_copy_that_is_close() -> None:
    assert odd(tail(copied=10), tail(1, copied=9, next_at=NOW - HOUR)) == []
    assert "keeps messages for 72 h, and the oldest one to copy is 60 min old (orders/a/1)" in (
        judged(tail(1, copied=9, next_at=NOW - HOUR))[-1].message
    )


def test_messages_that_will_be_deleted_soon() -> None:
    late = tail(copied=10, next_at=NOW - 60 * HOUR), tail(1, copied=9, next_at=NOW - HOUR)
    (found,) = odd(*late)
    assert (found.level, found.check, found.subject) == (Level.WARNING, "retention", "a")
    assert "the oldest one to copy is 60 h old (orders/a/0)" in found.message
    assert odd(*late, fileReservedTime="120") == []


def test_messages_that_are_gone() -> None:
    assert odd(tail(copied=10, source_min=11)) == []
    (found,) = odd(tail(copied=10, source_min=111))
    assert found.level is Level.ERROR
    assert found.message.startswith("100 messages were deleted")


def test_messages_that_may_have_been_left_out() -> None:
    """Nobody knows whether they are lost; one line for a topic, however many queues it has."""
    why = "the route leaves messages out (tags)"
    (found,) = odd(tail(copied=10, source_min=111, left_out=why), tail(1, copied=0, source_min=2, left_out=why))
    assert (found.level, found.subject) == (Level.NOT_CHECKED, "orders")
    assert found.message == (
        "whether 101 messages that were deleted behind the last copies (orders/a/0, orders/a/1) were left out or"
        f" lost, because {why}"
    )


def test_others_write_to_it() -> None:
    (found,) = odd(tail(foreign=3, foreign_at=NOW - 9000), tail(1, foreign=2, foreign_at=NOW - 7000))
    assert (found.level, found.subject) == (Level.WARNING, "copy")
    assert found.message.startswith("others have written to it, last 7 s ago: 5 of the last messages")


def test_copies_from_elsewhere() -> None:
    """What comes back from the target itself is not a stranger's."""
    (found,) = odd(tail(others=frozenset({"north"})))
    assert "it has copies from north too, and the route is from east" in found.message
    assert odd(tail(others=frozenset({"west"}))) == []


def test_an_unknown_broker() -> None:
    found = [*judge_tails([tail(copied=1, next_at=0)], Identity("east", "west"), {"b": HEALTHY}, now=1.0)]
    assert [each.level for each in found] == [Level.OK]


EAST_ORIGIN = b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/%d/5\x02"
WEST_ORIGIN = b"__RPL_ORIGIN\x01west\x02__RPL_SOURCE\x01west/b/0/7/5\x02"
OLD = int(NOW - 70 * HOUR)


def message(offset: int, properties: bytes = b"", *, at: int = OLD) -> StoredMessage:
    return StoredMessage(offset, 0, 0, 1, at, 0, 0, bytes(4), properties)


class Queues:
    """Both ends of one queue in memory: the broker at the source has what is in `source`, from `least` to `end`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, source: list[StoredMessage], target: list[StoredMessage]):
        self.held = {"source": source, "target": target}
        self.least = 50
        self.pulls = 0
        for name in ("min_offset", "max_offset", "pull", "read_range"):
            monkeypatch.setattr(tails, name, getattr(self, name))

    def end(self, broker: str) -> int:
        return max((each.queue_offset + 1 for each in self.held[broker]), default=self.least)

    async def min_offset(self, broker: str, _topic: str, _queue_id: int) -> int:
        return self.least if broker == "source" else 0

    async def max_offset(self, broker: str, _topic: str, _queue_id: int) -> int:
        return self.end(broker)

    async def pull(
        self, broker: str, _topic: str, _queue_id: int, offset: int, *, count: int, subscription: Subscription
    ) -> Pulled:
        assert subscription.expression in {"*", "x"}
        self.pulls += 1
        found = [each for each in self.held[broker] if offset <= each.queue_offset < offset + count]
        return Pulled(0, "", found, min(offset + count, self.end(broker)), self.least, self.end(broker), 0)

    async def read_range(
        self, broker: str, _topic: str, _queue_id: int, start: int, stop: int
    ) -> AsyncIterator[StoredMessage]:
        for each in self.held[broker]:
            if start <= each.queue_offset < stop:
                yield each

    async def examined(self, **more: Any) -> list[str]:
        """What is not ok, as its level and message."""
        plan: Any = SimpleNamespace(
            topic="orders", target_topic="copy", queue_map={Queue("a", 0): Queue("b", 0)}, problem=""
        )
        context: Any = SimpleNamespace(
            source=SimpleNamespace(cluster=SimpleNamespace(reader=lambda _: "source")),
            target=SimpleNamespace(
                topics={"b": {"copy": SimpleNamespace(queues=1)}},
                cluster=SimpleNamespace(master=lambda _: "target"),
            ),
            identity=Identity("east", "west"),
        )
        found = await examine_tails([plan], context, _route(**more), {"a": healthy()})
        return [f"{each.level}: {each.message}" for each in found if each.level is not Level.OK]


def _route(**more: Any) -> RouteSettings:
    return load({"source": {"namesrv": "a:1"}, "target": {"namesrv": "b:1"}} | more, file=None).route


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW / 1000)


async def test_what_is_lost_is_an_error_where_the_route_copies_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is where nothing is left at the source."""
    lost = "error: 39 messages were deleted there before they were copied"
    queues = Queues(monkeypatch, [message(60)], [message(0, EAST_ORIGIN % 10)])
    assert (await queues.examined())[0] == lost
    queues.held["source"] = []
    assert await queues.examined() == [lost]


@pytest.mark.parametrize("more", [{"tags": "x"}, {"sql": "x"}, {"forward": "local"}])
async def test_what_a_filter_may_have_left_out_is_no_error(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    queues = Queues(monkeypatch, [], [message(0, EAST_ORIGIN % 10)])
    (found,) = await queues.examined(**more)
    assert found.startswith("not checked: whether 39 messages")


async def test_what_came_from_the_target_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one of two opposite routes; neither is it late, though it is older than what is copied next."""
    back = [message(offset, WEST_ORIGIN) for offset in range(60, 110)]
    queues = Queues(monkeypatch, [*back, message(110, at=NOW)], [message(0, EAST_ORIGIN % 10)])
    (found,) = await queues.examined()
    assert found.endswith("were left out or lost, because the source has copies that came from the target")
    queues.held = {"source": [], "target": [message(0, EAST_ORIGIN % 10), message(1)]}
    found = (await queues.examined())[-1]
    assert found.startswith("not checked: whether 39 messages")


async def test_only_a_message_that_is_copied_can_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker and worker both filter by tags, transforms leave out more; and the search has an end."""
    target = [message(0, EAST_ORIGIN % 49)]
    queues = Queues(monkeypatch, [message(50, b"TAGS\x01y"), message(51, b"TAGS\x01x", at=NOW)], target)
    assert "is 70 h old" in (await queues.examined())[0]
    assert await queues.examined(tags="x") == []
    queues.held["source"] = [message(offset, WEST_ORIGIN) for offset in range(50, 2000)]
    queues.pulls = 0
    assert await queues.examined() == []
    assert queues.pulls < 10


async def test_what_a_transform_leaves_out_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(_topic: str, source: Queue, message: StoredMessage) -> StoredMessage | None:
        assert source == Queue("a", 0)
        return message if message.queue_offset > 50 else None

    monkeypatch.setattr("replicator.plugins.route_options.chain_of", lambda names, **_: later if names else None)
    target = [message(0, EAST_ORIGIN % 49)]
    queues = Queues(monkeypatch, [message(50), message(51, at=NOW)], target)
    assert await queues.examined(transforms=["later"]) == []
    queues.held["target"] = [message(0, EAST_ORIGIN % 10)]
    (found,) = await queues.examined(transforms=["later"])
    assert "because the route leaves messages out (transforms)" in found
