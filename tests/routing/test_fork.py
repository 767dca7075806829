"""Where a truncated queue parts from what was copied of it is found exactly, with few questions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.fork import last_common
from replicator.routing.offset_map import OffsetMap

#: Copies before each of these: (messages left out at the source, foreign ones at the target, copies).
RUNS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 40)), max_size=8)


def copies_of(runs: list[tuple[int, int, int]]) -> OffsetMap:
    copies, source, target = OffsetMap(), 0, 0
    for left_out, foreign, length in runs:
        source, target = source + left_out, target + foreign
        copies.add(source, target, length)
        source, target = source + length, target + length
    return copies


@given(RUNS, st.integers(0, 200), st.integers(0, 200))
async def test_the_last_one_that_is_the_same(runs: list[tuple[int, int, int]], kept: int, fork: int) -> None:
    """Retention has deleted all before source offset `kept`; from `fork` on the source has other messages."""
    copies, asked = copies_of(runs), 0

    async def holds(source: int, target: int) -> bool | None:
        nonlocal asked
        asked += 1
        assert copies.target_of(source) == target
        return None if source < kept else source < fork

    every = [run.source + i for run in copies for i in range(run.length)]
    same = [source for source in every if kept <= source < fork]
    assert await last_common(copies, holds) == (same[-1] if same else None)
    assert asked <= len(every).bit_length()
