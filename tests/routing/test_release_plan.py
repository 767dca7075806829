"""Each parked message is released, or there is a reason why not; and a repeated release finds nothing left."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.parked import Parked, Place
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import Found, Since, plan_release, undecided

PLACE = Place("parked", Queue("west-a", 0), 0)


def parked(
    number: int, *, like: str = "", due: int = 100, rolled: int = 0, unique: str = "", kind: str = "timer"
) -> Parked:
    return Parked(
        id=f"east/{kind}/a/0/{number}/1",
        kind=kind,
        topic="orders",
        queue=Queue("a", 0),
        due=due,
        unique=unique.encode(),
        fingerprint=(like or str(number)).encode(),
        rolled=rolled,
        parked_at=number,
        place=PLACE,
    )


def found(*messages: Parked, delivered: tuple[str, ...] = (), released: tuple[Parked, ...] = ()) -> Found:
    made = Found(list(messages), released={each.id for each in released})
    made.delivered["orders"].update(each.encode() for each in delivered)
    return made


def test_by_due_time() -> None:
    """What is due first is released first."""
    late, soon = parked(1, due=300), parked(2, due=200)
    assert plan_release(found(late, soon)).release == [soon, late]


def test_recalled_released_and_delivered_ones_are_left_alone() -> None:
    """Each is counted by its reason."""
    one, two, three, four = parked(1, unique="U"), parked(2), parked(3), parked(4)
    at_target = found(one, two, three, four, delivered=("3",), released=(two,))
    at_target.recalled.add(b"U")
    plan = plan_release(at_target)
    assert plan.release == [four]
    assert (plan.recalled, plan.released, plan.delivered) == (1, 1, 1)


@pytest.mark.parametrize(
    ("recall", "kind", "released"),
    [("U", "timer", False), ("orders+U", "timer", False), ("payments+U", "timer", True), ("U", "delay", True)],
)
def test_a_recall_names_a_message_of_the_timer(recall: str, kind: str, released: bool) -> None:
    """By its key, and from 5.3.2 on its topic; not the retries of what was recalled too late."""
    made = found(parked(1, unique="U", kind=kind))
    made.recalled.add(recall.encode())
    assert bool(plan_release(made).release) is released
    assert bool(undecided(made)) is released


def test_what_was_released_before_the_timer_put_it_back_is_not_released_again() -> None:
    """Its first record, which the released copy names, may be gone. What the timer puts back has the same key."""
    made = found(parked(2, like="same", rolled=1, unique="U"), parked(3, unique="U"), parked(4, rolled=1))
    retry = parked(5, rolled=1, unique="U", kind="delay")
    made.parked.append(retry)
    made.released_keys |= {("orders", b"U"), ("orders", b"")}
    plan = plan_release(made)
    assert plan.released == 1
    assert {each.id for each in plan.release} == {parked(3).id, parked(4).id, retry.id}


def test_of_messages_that_are_alike_as_many_are_released_as_were_not_delivered() -> None:
    """The earliest ones count as delivered."""
    first, second, third = (parked(i, like="same", due=i) for i in (1, 2, 3))
    assert plan_release(found(third, first, second, delivered=("same",))).release == [second, third]


def test_a_delivered_message_of_another_topic_is_another_one() -> None:
    """Even if it is alike."""
    made = found(parked(1))
    made.delivered["payments"] = Counter({b"1": 1})
    assert len(plan_release(made).release) == 1


def test_a_copy_that_was_stored_twice_is_one_message() -> None:
    """The data path may repeat copies after a fault."""
    assert plan_release(found(parked(1), parked(1))).release == [parked(1)]


def test_what_the_timer_put_back_is_one_message() -> None:
    """Also where a part of the first records is gone already, or an equal message is not put back yet."""
    first, second = parked(1, like="same"), parked(2, like="same", rolled=1)
    assert plan_release(found(first, second)).release == [first]
    assert plan_release(found(second)).release == [second]
    twins = [parked(i, like="same") for i in (3, 4)]
    assert plan_release(found(*twins, second)).release == twins


def test_since() -> None:
    """As far back as the earliest needs; recalled ones need nothing."""
    recalled_one = parked(1, due=50, unique="U")
    made = found(recalled_one, parked(5, due=200), parked(9, due=100))
    made.recalled.add(b"U")
    assert Since.of(undecided(made), margin=10) == Since(90, -5, 0)
    assert Since.of([], margin=10) is None


def test_since_before_the_timer_put_it_back() -> None:
    """It may have been released when it was parked before: into a timer at any time, elsewhere when it was due."""
    assert Since.of([parked(500, due=400, rolled=1), parked(600, due=700)], margin=10) == Since(390, 390, 0)
    assert Since.of([parked(500, due=400), parked(600, due=700, rolled=1)], margin=10) == Since(390, 490, 0)
    assert Since.of([parked(500, due=400)], margin=10) == Since(390, 490, 490)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30), st.lists(st.integers(0, 5)))
def test_repeated_until_nothing_is_left(messages: list[tuple[int, int]], delivered: list[int]) -> None:
    """Interrupted anywhere and repeated, each message is delivered or released once: neither lost nor doubled."""
    all_ = [parked(i, like=f"f{like}", due=due) for i, (like, due) in enumerate(messages)]
    copies = tuple(f"f{like}" for like in delivered)
    done: list[Parked] = []
    for _ in range(len(all_) + 1):
        plan = plan_release(found(*all_, delivered=copies, released=tuple(done)))
        assert plan.delivered + plan.released + len(plan.release) == len(all_)
        done += plan.release[:1]
    assert not plan.release
    wanted, there = Counter(each.fingerprint for each in all_), Counter(each.encode() for each in copies)
    got = Counter(each.fingerprint for each in done)
    assert got == wanted - there
