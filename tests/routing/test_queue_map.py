"""Queue maps are one to one, append-only and the same for everyone who computes them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.queue_map import MAX_QUEUES, Queue, extend, moved_to, needed_queues

NAMES = st.sampled_from(["a", "b", "c", "east-a", "west-a"])
QUEUES = st.lists(st.builds(Queue, NAMES, st.integers(0, 5)), max_size=12)
BROKERS = st.lists(NAMES, min_size=1, max_size=4, unique=True)
#: What one look after another finds: source queues and target brokers.
LOOKS = st.lists(st.tuples(QUEUES, BROKERS), min_size=1, max_size=5)


@given(LOOKS)
def test_two_source_queues_never_share_a_target_queue(looks: list[tuple[list[Queue], list[str]]]) -> None:
    """However queues and brokers come and go; what was mapped stays where it is; every queue has a target."""
    known: dict[Queue, Queue] = {}
    for sources, brokers in looks:
        extended = extend(known, sources, brokers)
        assert len(set(extended.values())) == len(extended)
        assert extended.items() >= known.items()
        assert extended.keys() == known.keys() | set(sources)
        assert {extended[new].broker for new in set(sources) - set(known)} <= set(brokers)
        known = extended


@given(QUEUES, QUEUES, BROKERS, st.randoms(use_true_random=False))
def test_the_same_input_gives_the_same_map(
    first: list[Queue], sources: list[Queue], brokers: list[str], rng: random.Random
) -> None:
    """In whatever order it comes."""
    known = extend({}, first, brokers)
    expected = extend(known, sources, brokers)
    shuffled, others, pairs = list(sources), list(brokers), list(known.items())
    for each in (shuffled, others, pairs):
        rng.shuffle(each)
    assert extend(dict(pairs), shuffled, others) == expected


@given(QUEUES, BROKERS)
def test_extending_again_changes_nothing(sources: list[Queue], brokers: list[str]) -> None:
    """A look that finds nothing new leaves the map alone, and what was given is not changed."""
    once = extend({}, sources, brokers)
    before = dict(once)
    assert extend(once, sources, brokers) == before
    assert extend(once, [], brokers) == before
    assert once == before


def test_ids_are_kept_where_they_are_free() -> None:
    """One broker to one, or to the one of the same name."""
    sources = [Queue("a", i) for i in range(3)]
    assert extend({}, sources, ["x"]) == {Queue("a", i): Queue("x", i) for i in range(3)}
    assert extend({}, sources, ["b", "a"]) == {Queue("a", i): Queue("a", i) for i in range(3)}


def test_ids_are_shifted_where_brokers_share_a_target() -> None:
    """Behind those that are taken."""
    sources = [Queue(broker, i) for broker in "ab" for i in range(2)]
    made = extend({}, sources, ["x"])
    assert made == {
        Queue("a", 0): Queue("x", 0),
        Queue("a", 1): Queue("x", 1),
        Queue("b", 0): Queue("x", 2),
        Queue("b", 1): Queue("x", 3),
    }
    assert extend(made, [Queue("a", 2)], ["x"])[Queue("a", 2)] == Queue("x", 4)


def test_source_brokers_are_spread_over_targets() -> None:
    """Each to the one that serves the fewest."""
    made = extend({}, [Queue(broker, 0) for broker in "abcd"], ["x", "y"])
    assert [made[Queue(broker, 0)].broker for broker in "abcd"] == ["x", "y", "x", "y"]


def test_new_queues_follow_those_of_their_broker_while_it_exists() -> None:
    """When the target broker is gone, new queues go to another."""
    made = extend({}, [Queue("a", 0)], ["x"])
    assert extend(made, [Queue("a", 1)], ["w", "x"])[Queue("a", 1)] == Queue("x", 1)
    assert extend(made, [Queue("a", 1)], ["w"])[Queue("a", 1)] == Queue("w", 1)


@given(QUEUES.filter(bool), BROKERS)
def test_the_needed_queues_hold_every_target(sources: list[Queue], brokers: list[str]) -> None:
    """The number is that of the highest id, plus one."""
    made = extend({}, sources, brokers)
    needed = needed_queues(made)
    assert needed.keys() == {target.broker for target in made.values()}
    for broker, count in needed.items():
        assert count == 1 + max(target.queue_id for target in made.values() if target.broker == broker)


def test_no_queue_is_needed_that_no_topic_has() -> None:
    """Whoever said that it is copied there: the target would make a thousand million of them."""
    assert needed_queues({Queue("a", 0): Queue("x", 3), Queue("a", 1): Queue("x", 10**9)}) == {"x": 4}
    assert needed_queues({Queue("a", 0): Queue("x", MAX_QUEUES - 1)}) == {"x": MAX_QUEUES}
    assert needed_queues({Queue("a", 0): Queue("x", MAX_QUEUES)}) == {}


def test_no_target_broker_is_a_bug_of_the_caller() -> None:
    """Nothing can be mapped to nothing."""
    with pytest.raises(ValueError, match="no target broker"):
        extend({}, [Queue("a", 0)], [])


@given(LOOKS, st.sampled_from(["a", "b"]), st.integers(0, 9))
def test_moved_queues_take_new_places(looks: list[tuple[list[Queue], list[str]]], lost: str, existing: int) -> None:
    """Each one that was on the lost broker, in its order; none where something is or was, then or later."""
    known: dict[Queue, Queue] = {}
    for sources, brokers in looks:
        known = extend(known, sources, brokers)
    new = moved_to(known, lost, "c", existing=existing)
    assert new.keys() == {source for source, target in known.items() if target.broker == lost}
    assert all(target.broker == "c" and target.queue_id >= existing for target in new.values())
    whole, left = known | new, {known[source] for source in new}
    assert len(set(whole.values())) == len(whole)
    assert [new[source] for source in sorted(new)] == sorted(new.values())
    more = extend(whole, [Queue("e", i) for i in range(9)], [lost], left=left)
    assert left.isdisjoint(more.values())


@given(QUEUES, QUEUES, BROKERS)
def test_queues_that_exist_are_used_before_the_target_gets_more(
    sources: list[Queue], existing: list[Queue], brokers: list[str]
) -> None:
    """One source queue each; new ones are needed only when none is left."""
    there = {queue for queue in existing if queue.broker in brokers}
    made = extend({}, sources, brokers, existing=existing)
    assert len(set(made.values())) == len(made) == len(set(sources))
    assert len(there & set(made.values())) == min(len(there), len(made))
