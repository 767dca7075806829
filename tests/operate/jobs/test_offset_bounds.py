"""A window of a comparison: between offsets or times, and never empty unseen."""

from __future__ import annotations

from typing import Any, cast

import pytest

from replicator.errors import ConfigError
from replicator.operate.jobs.offset_bounds import OffsetBound, narrowed, offset_bound


def test_an_offset_or_a_time() -> None:
    """And nothing else."""
    assert offset_bound("--from", None) is None
    assert offset_bound("--from", "17") == OffsetBound(17, is_time=False)
    assert offset_bound("--to", "1970-01-01T00:00:02Z") == OffsetBound(2000, is_time=True)
    with pytest.raises(ConfigError, match="--to = 'noon' is neither"):
        offset_bound("--to", "noon")


@pytest.mark.parametrize(
    ("low", "high"), [("5", "5"), ("6", "5"), ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z")]
)
async def test_an_empty_window_is_refused(low: str, high: str) -> None:
    """Nothing would be compared, and all would agree."""
    bounds = offset_bound("--from", low), offset_bound("--to", high)
    with pytest.raises(ConfigError, match="nothing lies between"):
        await narrowed(cast("Any", None), [], *bounds)


@pytest.mark.parametrize(("low", "high"), [("5", "6"), ("6", None), (None, "5"), ("9", "1970-01-01T00:00:00Z")])
async def test_other_windows_are_not(low: str | None, high: str | None) -> None:
    """An offset and a time cannot be compared."""
    bounds = offset_bound("--from", low), offset_bound("--to", high)
    assert await narrowed(cast("Any", None), [], *bounds) == []
