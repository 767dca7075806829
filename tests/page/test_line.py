"""Lines: within their box, interrupted where nothing is known, the same scale for all points."""

from __future__ import annotations

import re
from math import nan

from hypothesis import given
from hypothesis import strategies as st

from replicator.observe.topic_history import Point
from replicator.page.line import chart


def points(lags: list[float], *, step: float = 10.0) -> list[Point]:
    return [Point(1000.0 + step * n, lag, nan if n == 0 else 5.0) for n, lag in enumerate(lags)]


def test_a_line_ends_now_and_its_peak_is_at_the_top() -> None:
    line = chart(points([0, 100, 50]), width=100, height=23, span=100.0, now=1020.0)
    assert line.lag == "M80 22.0 L90 2.0 L100 12.0"
    assert line.area == "M80 23 L80 22.0 L90 2.0 L100 12.0 L100 23 Z"
    assert line.rate == "M90 2.0 L100 2.0"
    assert (line.top, line.top_rate) == (100, 5.0)


def test_what_is_older_is_left_out_and_one_point_is_no_line() -> None:
    assert chart(points([1, 2, 3]), width=100, height=20, span=5.0, now=1020.0).lag == ""
    assert chart(points([1, 2]), width=100, height=20, span=100.0, now=1020.0).lag.count("L") == 1
    assert chart([], width=100, height=20, span=5.0, now=1020.0)[2:5] == ("", "", "")


def test_a_line_is_interrupted_where_nothing_is_known() -> None:
    both = [*points([1, 1, 1]), *(Point(point.at + 500, 1, 5.0) for point in points([1, 1, 1]))]
    assert chart(both, width=100, height=20, span=1000.0, now=1600.0).lag.count("M") == 2


@given(st.lists(st.floats(0, 2**40, width=32), min_size=2, max_size=30))
def test_every_line_is_in_its_box(lags: list[float]) -> None:
    line = chart(points(lags), width=120, height=24, span=300.0, now=1000.0 + 10 * len(lags))
    coordinates = [float(each) for each in re.findall(r"-?[\d.]+(?:e[-+]\d+)?", line.lag)]
    assert all(0 <= x <= 120 for x in coordinates[0::2])
    assert all(0 <= y <= 24 for y in coordinates[1::2])
