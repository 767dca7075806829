"""Groups of workers in virtual time: never two senders for a task, and all tasks run in the end."""

from __future__ import annotations

from math import ceil

import pytest

from replicator.group.assignment import STRATEGIES, Strategy, sticky
from replicator.group.membership import MemberState
from tests.support.group_sim import Group


def _group(seed: int, *, members: int, tasks: int, strategy: Strategy = sticky) -> Group:
    group = Group(seed, members=members, tasks=tasks, strategy=strategy)
    for node in group.nodes:
        node.boot()
    return group


def _until_settled(group: Group, seconds: float) -> float:
    start = group.now
    while not group.settled():
        group.run(0.1)
        assert group.now - start < seconds, "it does not settle"
    return group.now - start


def test_one_worker_alone_begins_at_once() -> None:
    group = _group(1, members=1, tasks=10)
    assert _until_settled(group, 3) < 1.6  # a read may take a second


def test_a_burst_of_joins_is_one_round() -> None:
    group = _group(2, members=8, tasks=40)
    _until_settled(group, 10)
    assert len(group.assignments) <= 3


def test_a_fourth_worker_moves_a_quarter_and_stops_no_other() -> None:
    group = Group(3, members=4, tasks=200)
    for node in group.nodes[1:]:
        node.boot()
    _until_settled(group, 10)
    before, starts = group.assignments[-1].owners, group.starts
    group.nodes[0].boot()
    group.run(3)
    _until_settled(group, 10)
    after = group.assignments[-1].owners
    moved = {task for task in group.tasks if before[task] != after[task]}
    assert {after[task] for task in moved} == {"w00"}
    assert len(moved) <= ceil(200 / 4)
    assert group.starts - starts == len(moved)


@pytest.mark.parametrize("how", ["crash", "leave"])
def test_the_tasks_of_a_lost_worker_go_on_elsewhere(how: str) -> None:
    group = _group(4, members=3, tasks=60)
    _until_settled(group, 10)
    if how == "crash":
        group.nodes[0].crash()
        assert _until_settled(group, 20) < 8
    else:
        group.nodes[0].coordinator.stage = MemberState.LEAVING
        assert _until_settled(group, 20) < 3


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_no_two_senders_whatever_happens(strategy: Strategy, simulations: int) -> None:
    for seed in range(simulations):
        _survives(seed, strategy)


def _survives(seed: int, strategy: Strategy) -> None:
    group = _group(seed, members=2 + seed % 5, tasks=12, strategy=strategy)
    for _ in range(40):
        group.run(group.random.uniform(0.05, 3))
        group.trouble()
        group.check()
    group.run(16)
    group.heal()
    if not any(node.alive for node in group.nodes):
        group.nodes[0].boot()
    _until_settled(group, 20)


def test_fifty_members_come_and_go(simulations: int) -> None:
    for seed in range(1 + simulations // 100):
        _fifty_come_and_go(seed)


def _fifty_come_and_go(seed: int) -> None:
    group = _group(seed, members=50, tasks=200)
    for _ in range(30):
        group.run(group.random.uniform(0.05, 0.5))
        group.trouble()
    group.check()
    group.run(16)
    group.heal()
    _until_settled(group, 20)
