"""When the end of a mirror is enough: somebody has published all long before us."""

from __future__ import annotations

from replicator.group.mirror_past import MirrorPast


def test_only_what_was_published_long_before_us_counts() -> None:
    """By the clock of one broker: those of two may differ."""
    past = MirrorPast(5.0)
    assert not past.is_known
    past.published("a", 10_000)
    assert not past.is_known  # we have not been there yet
    past.beaten("b", 100_000)
    past.beaten("a", 70_000)
    past.beaten("a", 99_000)
    assert not past.is_known
    past.published("a", 12_000)
    past.published("a", 9_999)
    assert past.is_known
