"""Durations in words."""

from __future__ import annotations

import pytest

from replicator.observe.duration import duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "1 s"), (59, "59 s"), (600, "10 m"), (11_100, "3 h 05 m"), (172_800, "2 d")],
)
def test_durations(seconds: float, shown: str) -> None:
    """In the unit that says enough."""
    assert duration(seconds) == shown
