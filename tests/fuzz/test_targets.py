"""Every target of `make fuzz` holds for its seeds, and for what is near to them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_their_neighbours(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=150)
    @given(
        st.sampled_from(target.seeds),
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=9)), max_size=4),
    )
    def holds(seed: bytes, edits: list[tuple[int, int, bytes]]) -> None:
        for at, length, new in edits:
            seed = seed[:at] + new + seed[at + length :]
        target.run(seed)

    for seed in target.seeds:
        target.run(seed)
    holds()
