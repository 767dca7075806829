"""Which part of a connector's rate limits a worker may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.worker.rate_shares import rate_shares

OWNERS = {"a/1": "w0", "a/2": "w0", "a/3": "w1", "a/4": "w1", "b/1": "w1"}
LIMITS = {"a": (1000, 0)}


def shares(
    running: set[str], me: str = "w0", *, owners: Mapping[str, str] = OWNERS, used: Mapping[str, Any] = {}
) -> dict[str, float]:
    return rate_shares(
        owners, running, me=me, used={worker: {"a": use} for worker, use in used.items()}, limits=LIMITS
    )


def use(messages: int = 0, *, waited: bool = False) -> dict[str, Any]:
    return {"messages": messages, "size": 0, "waited": waited}


@pytest.mark.parametrize(
    ("running", "parts"),
    [
        ({"a/1", "a/2"}, {"a": 0.5, "b": 0.0}),
        ({"a/1", "a/2", "a/3"}, {"a": 0.75, "b": 0.0}),  # w1 waits for the third
        ({"a/1", "a/2", "a/5"}, {"a": 0.6, "b": 0.0}),  # its topic is no longer copied
        (set(), {"a": 0.0, "b": 0.0}),
    ],
)
def test_that_of_the_tasks_that_it_runs(running: set[str], parts: dict[str, float]) -> None:
    assert shares(running) == parts


def test_what_is_taken_over_counts_until_it_has_stopped() -> None:
    """A worker that leaves owns nothing any more, and has all of it to drain."""
    owners = dict.fromkeys(OWNERS, "w1")
    assert shares({"a/1", "a/2"}, owners=owners) == {"a": 0.5, "b": 0.0}


def test_all_shares_are_the_limit() -> None:
    """Whatever moves, two workers together have it once."""
    there = shares({"a/1", "a/2", "a/3"}), shares({"a/4", "b/1"}, "w1")
    assert {name: there[0][name] + there[1][name] for name in ("a", "b")} == {"a": 1.0, "b": 1.0}


def test_what_one_does_not_need_the_other_has() -> None:
    """One topic has a backlog; with 200 messages/s the others get along, and have room for more."""
    told = {"w0": use(500, waited=True), "w1": use(200)}
    assert shares({"a/1", "a/2"}, used=told)["a"] == pytest.approx(0.65)
    assert shares({"a/3", "a/4"}, "w1", used=told)["a"] == pytest.approx(0.35)


def test_one_that_waits_too_has_its_part_again() -> None:
    told = {"w0": use(650, waited=True), "w1": use(350, waited=True)}
    assert shares({"a/1", "a/2"}, used=told)["a"] == shares({"a/3", "a/4"}, "w1", used=told)["a"] == 0.5


def test_of_one_that_has_said_nothing_nothing_is_taken() -> None:
    assert shares({"a/1", "a/2"}, used={"w0": use(500, waited=True)})["a"] == 0.5


def test_while_nobody_waits_all_have_their_parts() -> None:
    assert shares({"a/1", "a/2"}, used={"w0": use(1), "w1": use(1)})["a"] == 0.5


@given(
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=9),
    st.dictionaries(st.sampled_from("xyz"), st.builds(use, st.integers(0, 3000), waited=st.booleans())),
)
def test_together_they_never_have_more_than_the_limit(owned: list[str], told: dict[str, dict[str, Any]]) -> None:
    """And all of it while somebody waits; each has something to begin with."""
    owners = {f"a/{number}": worker for number, worker in enumerate(owned)}
    found = {
        me: shares({task for task, worker in owners.items() if worker == me}, me, owners=owners, used=told)["a"]
        for me in set(owned)
    }
    assert sum(found.values()) == pytest.approx(1.0)
    assert all(part >= 0.1 * owned.count(me) / len(owned) - 1e-9 for me, part in found.items())
    assert all(found[me] >= owned.count(me) / len(owned) - 1e-9 for me in found if told.get(me, use())["waited"])
