"""What is said of the ends of queues."""

from __future__ import annotations

from typing import Any

from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.tails import Tail, judge_tails
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity
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


def test_others_write_to_it() -> None:
    (found,) = odd(tail(foreign=3, foreign_at=NOW - 9000), tail(1, foreign=2, foreign_at=NOW - 7000))
    assert (found.level, found.subject) == (Level.WARNING, "copy")
    assert found.message.startswith("others have written to it, last 7 s ago: 5 of the last messages")


def test_copies_from_elsewhere() -> None:
    """What comes back from the target itself is no stranger's."""
    (found,) = odd(tail(others=frozenset({"north"})))
    assert "it has copies from north too, and the route is from east" in found.message
    assert odd(tail(others=frozenset({"west"}))) == []


def test_an_unknown_broker() -> None:
    found = [*judge_tails([tail(copied=1, next_at=0)], Identity("east", "west"), {"b": HEALTHY}, now=1.0)]
    assert [each.level for each in found] == [Level.OK]
