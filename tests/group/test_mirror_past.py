"""When the end of a mirror is enough: somebody has published all long before us."""

from __future__ import annotations

from replicator.group.mirror_past import MirrorPast, seconds_needed


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


def test_enough_of_the_past_is_read_whatever_the_settings() -> None:
    """The last publication that counts is one interval older than a minute at most."""
    for interval, timeout in ((600.0, 5.0), (10.0, 5.0), (600.0, 120.0)):
        past = MirrorPast(timeout)
        past.beaten("a", 10**9)
        past.published("a", 10**9 - int(1000 * seconds_needed(interval, timeout)))
        assert past.is_known
        assert seconds_needed(interval, timeout) > interval + 12 * timeout
