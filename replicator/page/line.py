"""The line of a topic over the last hours, as the path of an SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isnan
from typing import Final, NamedTuple

from replicator.observe.topic_history import Point

__all__ = ["Chart", "chart"]

#: Seconds without a point after which a line is interrupted, by how far points are usually apart.
_GAP: Final = 3.5


class Chart(NamedTuple):
    """Paths in a box of `width` by `height`; `top` is the value at its upper edge, the lower one is 0.

    `area` is the lag, closed at the bottom, `lag` its outline, `rate` the other line, with `top_rate`.
    """

    width: int
    height: int
    area: str
    lag: str
    rate: str
    top: float
    top_rate: float
    begin: float
    end: float


def chart(points: Sequence[Point], *, width: int, height: int, span: float, now: float) -> Chart:
    """The last `span` seconds before `now`; empty paths where there are fewer than two points."""
    begin = now - span
    shown = [point for point in points if point.at >= begin]
    gap = _GAP * max((b.at - a.at for a, b in pairwise(shown[-3:])), default=1.0)
    top = max((point.lag for point in shown), default=0.0)
    top_rate = max((point.rate for point in shown if not isnan(point.rate)), default=0.0)

    def x(at: float) -> float:
        return round((at - begin) / span * width, 1)

    def runs(values: Sequence[tuple[float, float]], highest: float) -> list[list[str]]:
        """Coordinates, apart where a time is missing."""
        found: list[list[str]] = []
        last = None
        for at, value in values:
            if last is None or at - last > gap:
                found.append([])
            y = height - 1 - (value / highest * (height - 3) if highest else 0)
            found[-1].append(f"{x(at):g} {y:.1f}")
            last = at
        return [each for each in found if len(each) > 1]

    lags = runs([(point.at, point.lag) for point in shown], top)
    rates = runs([(point.at, point.rate) for point in shown if not isnan(point.rate)], top_rate)
    area = " ".join(
        f"M{each[0].split()[0]} {height} L{' L'.join(each)} L{each[-1].split()[0]} {height} Z" for each in lags
    )
    return Chart(width, height, area, _joined(lags), _joined(rates), top, top_rate, begin, now)


def _joined(runs: Sequence[Sequence[str]]) -> str:
    return " ".join(f"M{' L'.join(each)}" for each in runs)
