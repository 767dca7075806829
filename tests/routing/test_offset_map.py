"""The offset map against a plain dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.offset_map import Interval, OffsetMap

#: (gap before in the source, gap before in the target, length)
RUNS = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, 5]), st.sampled_from([0, 0, 0, 1, 7]), st.integers(1, 6)), max_size=20
)


def build(runs: list[tuple[int, int, int]]) -> tuple[OffsetMap, dict[int, int], list[Interval]]:
    """The map, the naive one, and the runs as they were added."""
    made, naive, added = OffsetMap(), {}, []
    source, target = 3, 100
    for source_gap, target_gap, length in runs:
        source, target = source + source_gap, target + target_gap
        made.add(source, target, length)
        added.append(Interval(source, target, length))
        naive.update({source + i: target + i for i in range(length)})
        source, target = source + length, target + length
    return made, naive, added


@given(RUNS)
def test_it_agrees_with_a_dictionary_both_ways(runs: list[tuple[int, int, int]]) -> None:
    """Exactly, or not at all: nothing between, before or behind the runs is translated."""
    made, naive, _ = build(runs)
    backwards = {target: source for source, target in naive.items()}
    for offset in range(max([*naive, *backwards, 0]) + 3):
        assert made.target_of(offset) == naive.get(offset)
        assert made.source_of(offset) == backwards.get(offset)
    assert made.last == (max(naive.items()) if naive else None)


@given(RUNS)
def test_runs_that_continue_each_other_are_one_interval(runs: list[tuple[int, int, int]]) -> None:
    """There are as many intervals as there are gaps, plus one; in order."""
    made, _, _ = build(runs)
    assert len(made) == len(list(made)) == sum(1 for i, run in enumerate(runs) if i == 0 or run[0] or run[1])
    assert list(made) == sorted(made)


@given(RUNS)
def test_it_can_be_made_again_from_its_intervals(runs: list[tuple[int, int, int]]) -> None:
    """As the store does."""
    made, _, added = build(runs)
    assert list(OffsetMap(made)) == list(made) == list(OffsetMap(added))


@pytest.mark.parametrize("run", [(12, 200, 1), (0, 200, 1), (99, 105, 1), (20, 20, 0), (-1, 50, 1), (50, -1, 1)])
def test_going_back_is_refused_and_changes_nothing(run: tuple[int, int, int]) -> None:
    """On either side; also empty runs and negative offsets."""
    made = OffsetMap([Interval(10, 103, 3)])
    with pytest.raises(ValueError, match=str(run[0])):
        made.add(*run)
    assert list(made) == [Interval(10, 103, 3)]


def test_the_oldest_intervals_are_dropped() -> None:
    """What is left is still exact."""
    made = OffsetMap((Interval(2 * i, 10 * i, 1) for i in range(5)), most=3)
    assert [interval.source for interval in made] == [4, 6, 8]
    assert made.target_of(2) is None
    assert made.target_of(4) == 20
    assert made.last == (8, 40)


def test_a_cleared_map_begins_again() -> None:
    """Offsets may be lower than before."""
    made = OffsetMap([Interval(10, 103, 3)])
    made.clear()
    assert made.last is None
    assert len(made) == 0
    made.add(0, 0, 1)
    assert made.target_of(0) == 0
