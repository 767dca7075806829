"""Strategies: every task has one live owner; bounds on load and on moves."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import EntryPoint
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigError
from replicator.group.assignment import STRATEGIES, Strategy, consistent_hash, even, load_strategy, sticky
from replicator.plugins import installed

WORKERS = st.sets(st.sampled_from([f"w{i}" for i in range(12)]), max_size=12)
TASKS = st.sets(st.integers(0, 300).map(lambda i: f"t{i:03}"), max_size=120)


def _loads(owners: dict[str, str], workers: set[str]) -> list[int]:
    counts = Counter(owners.values())
    return [counts[worker] for worker in workers]


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@given(WORKERS, TASKS, st.dictionaries(st.integers(0, 300).map(lambda i: f"t{i:03}"), st.sampled_from("abw")))
def test_every_task_has_one_live_owner(
    strategy: Strategy, workers: set[str], tasks: set[str], last: dict[str, str]
) -> None:
    owners = strategy(workers, tasks, last)
    assert set(owners) == (tasks if workers else set())
    assert set(owners.values()) <= workers
    assert owners == strategy(sorted(workers, reverse=True), sorted(tasks, reverse=True), last)


@pytest.mark.parametrize("strategy", [even, sticky])
@given(WORKERS.filter(bool), WORKERS.filter(bool), TASKS, TASKS)
def test_loads_differ_by_one(
    strategy: Strategy, before: set[str], after: set[str], old: set[str], new: set[str]
) -> None:
    loads = _loads(strategy(after, new, strategy(before, old, {})), after)
    assert max(loads) - min(loads) <= 1


@given(WORKERS.filter(bool), TASKS)
def test_sticky_leaves_a_balanced_group_alone(workers: set[str], tasks: set[str]) -> None:
    owners = sticky(workers, tasks, {})
    assert sticky(workers, tasks, owners) == owners


@given(WORKERS.filter(bool), TASKS)
def test_sticky_moves_only_what_a_new_worker_takes(workers: set[str], tasks: set[str]) -> None:
    before = sticky(workers, tasks, {})
    after = sticky(workers | {"new"}, tasks, before)
    moved = {task for task in tasks if before[task] != after[task]}
    assert {after[task] for task in moved} <= {"new"}
    assert len(moved) <= ceil(len(tasks) / (len(workers) + 1))


@given(WORKERS.filter(lambda workers: len(workers) > 1), TASKS)
def test_sticky_moves_only_what_a_lost_worker_had(workers: set[str], tasks: set[str]) -> None:
    before = sticky(workers, tasks, {})
    gone = min(workers)
    after = sticky(workers - {gone}, tasks, before)
    assert {task for task in tasks if before[task] != after[task]} == {t for t in tasks if before[t] == gone}


@given(WORKERS.filter(bool), TASKS)
def test_consistent_hash_moves_only_to_and_from_the_worker_that_changed(workers: set[str], tasks: set[str]) -> None:
    without = consistent_hash(workers, tasks, {})
    with_it = consistent_hash(workers | {"new"}, tasks, {})
    assert {with_it[task] for task in tasks if without[task] != with_it[task]} <= {"new"}


def test_consistent_hash_spreads() -> None:
    workers = {f"w{i}" for i in range(10)}
    loads = _loads(consistent_hash(workers, {f"topic-{i}" for i in range(2000)}, {}), workers)
    assert 140 < min(loads) <= max(loads) < 260


def test_strategies_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        EntryPoint("reversed", f"{__name__}:all_to_the_last", installed.ASSIGNMENTS),
        EntryPoint("broken", "no.such.module:strategy", installed.ASSIGNMENTS),
    ]
    monkeypatch.setattr(installed, "entry_points", lambda *, group: found if group == installed.ASSIGNMENTS else [])
    assert load_strategy("reversed") is all_to_the_last
    with pytest.raises(ConfigError, match=r"assignment = 'broken' cannot be loaded .*no"):
        load_strategy("broken")
    with pytest.raises(ConfigError, match=r"there are even, sticky, consistent-hash, broken, reversed"):
        load_strategy("random")


def all_to_the_last(workers: set[str], tasks: set[str], last: dict[str, str]) -> dict[str, str]:
    return dict.fromkeys(tasks, max(workers))
