"""Whole numbers as Java has them: what else is written in their place is none."""

from __future__ import annotations

import pytest

from replicator.protocol.numbers import as_long

MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("value", "number"),
    [("0", 0), ("-1", -1), (7, 7), ("007", 7), (MOST, MOST), (str(-MOST - 1), -MOST - 1)],
)
def test_what_a_broker_can_keep(value: object, number: int) -> None:
    assert as_long(value) == number


@pytest.mark.parametrize(
    "value",
    [None, "", "x", "1_0", " 1", "+1", "\u0663", "5.0", 5.0, 1e300, True, [], MOST + 1, str(MOST + 1)],
)
def test_what_no_broker_can_keep(value: object) -> None:
    """Among it what Python takes for a number."""
    with pytest.raises(ValueError, match="of 64 bits"):
        as_long(value)
