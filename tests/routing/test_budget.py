"""The memory budget: first come, first served, and never a byte created or lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.budget import MemoryBudget

LIMIT = 100
STEPS = st.lists(
    st.tuples(st.sampled_from(["reserve", "reserve", "charge", "release"]), st.integers(0, 150)), max_size=60
)


@given(STEPS, st.integers(0, 2**16))
def test_it_is_fair_and_exact(steps: list[tuple[str, int]], pick: int) -> None:
    """Grants come in the order of the requests, the limit holds for all but a lone one, and all comes back."""
    budget = MemoryBudget(LIMIT)
    held: list[int] = []
    asked: list[int] = []
    granted: list[int] = []

    def reserve(number: int, size: int) -> None:
        def grant() -> None:
            granted.append(number)
            held.append(size)
            assert before[0] <= 0 or budget.used <= LIMIT

        asked.append(number)
        before[0] = budget.used
        if budget.reserve(size, grant):
            grant()

    before = [0]
    for number, (kind, size) in enumerate(steps):
        if kind == "reserve":
            reserve(number, size)
        elif kind == "charge":
            budget.charge(size)
            held.append(size)
        elif held:
            freed = held.pop(pick % len(held))
            before[0] = budget.used - freed
            if before[0] > 0:
                budget.release(freed)
            else:  # the first in line may be alone, whatever its size
                before[0] = 0
                budget.release(freed)
        assert granted == asked[: len(granted)]
        assert budget.used == sum(held) >= 0
    while held:
        before[0] = 0
        budget.release(held.pop())
    assert granted == asked
    assert budget.used == 0


def test_one_reservation_is_always_possible() -> None:
    """Else a message larger than the budget would stop everything."""
    budget = MemoryBudget(LIMIT)
    assert budget.reserve(1000, lambda: None)
    granted: list[str] = []
    assert not budget.reserve(2000, lambda: granted.append("large"))
    budget.release(1000)
    assert granted == ["large"]
    assert budget.used == 2000


def test_small_ones_do_not_overtake() -> None:
    """A large one would starve behind a stream of small ones."""
    budget = MemoryBudget(LIMIT)
    granted: list[str] = []
    assert budget.reserve(60, lambda: None)
    assert not budget.reserve(90, lambda: granted.append("large"))
    assert not budget.reserve(10, lambda: granted.append("small"))
    assert granted == []
    budget.release(60)
    assert granted == ["large", "small"]
    assert budget.used == 100


def test_a_forced_charge_counts_and_blocks_others() -> None:
    """Even beyond the limit, until it is released."""
    budget = MemoryBudget(LIMIT)
    budget.charge(150)
    granted: list[str] = []
    assert not budget.reserve(10, lambda: granted.append("late"))
    budget.release(50)
    assert granted == []
    budget.release(20)
    assert granted == ["late"]
    assert budget.used == 90


def test_a_grant_may_use_the_budget_again() -> None:
    """Sources pump from within it."""
    budget = MemoryBudget(LIMIT)
    order: list[str] = []

    def first() -> None:
        order.append("first")
        assert not budget.reserve(10, lambda: order.append("third"))

    budget.charge(100)
    budget.reserve(90, first)
    budget.reserve(10, lambda: order.append("second"))
    budget.release(100)
    assert order == ["first", "second"]
    budget.release(90)
    assert order == ["first", "second", "third"]
    assert budget.used == 20


def test_a_long_line_may_give_all_back_at_once() -> None:
    """As thousands of queues do that have stopped while they waited."""
    budget = MemoryBudget(LIMIT)
    budget.charge(LIMIT)
    for _ in range(5000):
        assert not budget.reserve(LIMIT, lambda: budget.release(LIMIT))
    granted: list[str] = []
    assert not budget.reserve(LIMIT, lambda: granted.append("last"))
    budget.release(LIMIT)
    assert granted == ["last"]
    assert budget.used == LIMIT
