"""When an answer is given about topics that were looked at too long ago."""

from __future__ import annotations

import time

import pytest

from replicator.admin.readiness import LAST_SEEN, _of_last_look


@pytest.mark.parametrize(("ago", "old"), [(5.0, False), (14.0, False), (30.0, True)])
def test_what_was_seen_long_ago(ago: float, *, old: bool) -> None:
    """It says since when, and where the reason stands."""
    found = [*_of_last_look(time.time() - ago, 15.0)]
    assert [each.startswith(LAST_SEEN) for each in found] == [True] * old
