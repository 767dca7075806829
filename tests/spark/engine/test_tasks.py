"""In what order Spark's tasks begin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.spark.engine.tasks import in_turn


def test_brokers_take_turns() -> None:
    """Whatever is left of one comes at the end."""
    given = [f"{broker}{queue}" for broker, queues in (("a", 4), ("b", 2), ("c", 1)) for queue in range(queues)]
    assert " ".join(in_turn(given, lambda part: part[0])) == "a0 b0 c0 a1 b1 a2 a3"


@given(st.lists(st.sampled_from("abc")))
def test_nothing_is_lost_and_each_brokers_order_stays(brokers: list[str]) -> None:
    """Of the first so many parts each broker has its share."""
    parts = list(enumerate(brokers))
    turns = in_turn(parts, lambda part: part[1])
    for broker in "abc":
        assert [part for part in turns if part[1] == broker] == [part for part in parts if part[1] == broker]
    for count in range(len(turns)):
        had = {broker: [part[1] for part in turns[:count]].count(broker) for broker in set(brokers)}
        unfinished = [n for broker, n in had.items() if n < brokers.count(broker)]
        assert not unfinished or max(had.values()) - min(unfinished) <= 1
