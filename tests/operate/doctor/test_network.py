"""What is said of name servers, by which of them answer."""

from __future__ import annotations

from replicator.operate.doctor.finding import Level
from replicator.operate.doctor.network import Heard, judge_name_servers

ALIVE = Heard("a:9876", 2.4)
DEAD = Heard("b:9876", failure="b:9876 cannot be reached (Connection refused)")


def test_one_of_two_is_dead() -> None:
    """The route uses the other one; with none there is no route."""
    first, second = judge_name_servers("source", [ALIVE, DEAD])
    assert (first.level, first.message) == (Level.OK, "answers in 2 ms")
    assert (second.level, second.subject) == (Level.WARNING, "b:9876")
    assert "the route uses a:9876" in second.message
    assert "leave it out of --source" in second.advice
    assert [each.level for each in judge_name_servers("source", [DEAD])] == [Level.ERROR]
