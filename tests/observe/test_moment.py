"""Times are written whatever they are: brokers and records of others say them."""

from __future__ import annotations

from math import inf, nan

import pytest

from replicator.observe.moment import moment


def test_a_time_of_day() -> None:
    assert moment(1_764_064_800.7) == "2025-11-25 10:00:00 UTC"
    assert moment(1_764_064_800.7, "%H:%M") == "10:00"
    assert moment(253_402_300_799) == "9999-12-31 23:59:59 UTC"


@pytest.mark.parametrize(
    ("at", "told"), [(253_402_300_800, "2.534e+11"), (2**62, "4.612e+18"), (1e308, "1e+308"), (-1, "-1")]
)
def test_what_no_calendar_has(at: float, told: str) -> None:
    assert moment(at) == f"{told} s after 1970"


@pytest.mark.parametrize("at", [inf, -inf, nan])
def test_what_is_no_number(at: float) -> None:
    assert moment(at).endswith("after 1970")
