"""As few copies are out of order as can be, and little is remembered of those that are in order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.ranges import copy_order as module
from replicator.ranges.copy_order import CopyOrder


def _out(given: Sequence[int]) -> list[int]:
    """What is out of order where copies of these source offsets are at target offsets 100, 101, …"""
    order = CopyOrder()
    for at, offset in enumerate(given, 100):
        order.add((offset, offset), (at, at))
    blocks = order.decide()
    out = [offset for at, offset in enumerate(given, 100) if order.is_out(at) and offset not in given[: at - 100]]
    assert {offset for low, high in blocks for offset in range(low, high + 1)} == set(out)
    return out


def _fewest(given: Sequence[int]) -> int:
    """By comparing each with each."""
    longest: list[int] = []
    for at, offset in enumerate(given):
        longest.append(1 + max((longest[n] for n in range(at) if given[n] < offset), default=0))
    return len(given) - max(longest, default=0)


@given(st.lists(st.integers(0, 40)))
def test_the_fewest_are_out_of_order(given: list[int]) -> None:
    """The rest is in order; second copies do not count."""
    firsts = list(dict.fromkeys(given))
    out = _out(given)
    assert len(out) == _fewest(firsts)
    rest = [offset for offset in firsts if offset not in out]
    assert rest == sorted(rest)


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ([*range(200)], []),
        ([*range(100), 101, 100, *range(102, 200)], [100]),
        ([*range(50), 150, *range(51, 150), 50, *range(151, 200)], [150, 50]),
        ([*range(100, 110), *range(100), *range(110, 200)], [*range(100, 110)]),
        ([*range(0, 200, 2), *range(1, 200, 20)], [*range(1, 200, 20)]),
        ([*range(200), *range(200)], []),
    ],
    ids=["in order", "neighbours", "100 apart", "a block", "late ones", "twice"],
)
def test_what_is_moved(given: list[int], out: list[int]) -> None:
    """Of two neighbours the later one, of two that are apart both: that is the least that puts them in order."""
    assert _out(given) == out


def test_what_a_filter_leaves_out_is_no_gap() -> None:
    """Where each is told what is in front of it, a queue in order is one block."""
    order = CopyOrder()
    for at in range(100):
        order.add((10 * at, 10 * at), (at, at), before=10 * at - 10 if at else None)
    assert len(order._blocks) == 1
    order.add((1000, 1990), (100, 199), count=100, before=990)
    assert len(order._blocks) == 1
    order.add((5, 5), (200, 200))
    assert order.decide() == []


def test_too_much_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says from where on it knows nothing; what it has is right."""
    monkeypatch.setattr(module, "_MOST", 3)
    order = CopyOrder()
    for at, offset in enumerate([0, 1, 5, 3, 4, 9, 2]):
        order.add((offset, offset), (at, at))
    assert order.full_from == 5
    assert order.decide() == [(5, 5)]
    assert [at for at in range(7) if order.is_out(at)] == [2]
