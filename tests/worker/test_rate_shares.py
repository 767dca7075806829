"""Which part of a connector's rate limits a worker may use."""

from __future__ import annotations

import pytest

from replicator.worker.rate_shares import rate_shares

OWNERS = {"a/1": "w0", "a/2": "w0", "a/3": "w1", "a/4": "w1", "b/1": "w1"}


@pytest.mark.parametrize(
    ("running", "shares"),
    [
        ({"a/1", "a/2"}, {"a": 0.5, "b": 0.0}),
        ({"a/1", "a/2", "a/3"}, {"a": 0.75, "b": 0.0}),  # w1 waits for the third
        ({"a/1", "a/2", "a/5"}, {"a": 0.6, "b": 0.0}),  # its topic is no longer copied
        (set(), {"a": 0.0, "b": 0.0}),
    ],
)
def test_that_of_the_tasks_that_it_runs(running: set[str], shares: dict[str, float]) -> None:
    assert rate_shares(OWNERS, running) == shares


def test_what_is_taken_over_counts_until_it_has_stopped() -> None:
    """A worker that leaves owns nothing any more, and has all of it to drain."""
    owners = dict.fromkeys(OWNERS, "w1")
    assert rate_shares(owners, {"a/1", "a/2"}) == {"a": 0.5, "b": 0.0}


def test_all_shares_are_the_limit() -> None:
    """Whatever moves, two workers together have it once."""
    there = rate_shares(OWNERS, {"a/1", "a/2", "a/3"}), rate_shares(OWNERS, {"a/4", "b/1"})
    assert {name: there[0][name] + there[1][name] for name in ("a", "b")} == {"a": 1.0, "b": 1.0}
