"""A seed is the same plan each time, and plans have all kinds of faults."""

from __future__ import annotations

from tests.soak.schedule import KINDS, WORLDS, plan


def test_the_same_seed_is_the_same_plan() -> None:
    assert plan("7/1", 60) == plan("7/1", 60)
    assert plan("7/1", 60) != plan("7/2", 60)


def test_all_kinds_come_within_the_time() -> None:
    plans = [plan(f"seed/{number}", 120) for number in range(40)]
    assert {fault.kind for each in plans for fault in each.faults} == {*KINDS}
    assert {each.world for each in plans} == {*WORLDS}
    assert all(fault.at < 120 for each in plans for fault in each.faults)
    assert min(len(each.faults) for each in plans) > 10


def test_links_of_brokers_that_have_no_proxies_are_left_alone() -> None:
    plans = [plan(f"seed/{number}", 300) for number in range(40)]
    old = [each for each in plans if each.versions[0].startswith("4.")]
    assert old
    struck = {(fault.kind, fault.side) for each in old for fault in each.faults if KINDS[fault.kind][0] == "link"}
    assert {side for _, side in struck} == {"target"}
