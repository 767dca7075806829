"""A seed is the same plan each time, and plans have all kinds of faults."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.soak.accounts import rights
from tests.soak.nemesis import Nemesis
from tests.soak.schedule import KINDS, WORLDS, plan
from tests.soak.test_round import SECONDS, SEED


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


def test_the_controller_of_an_elected_source_is_left_alone() -> None:
    """Without it a master that was replaced acknowledges messages that the source then loses by itself."""
    plans = [plan(f"seed/{number}", 300) for number in range(80)]
    struck = {
        (each.world, fault.side)
        for each in plans
        for fault in each.faults
        if fault.kind.startswith("nameserver-") and each.world.startswith("elected")
    }
    assert struck == {("elected source", "target"), ("elected target", "source"), ("elected target", "target")}


def test_the_short_round_has_what_it_says() -> None:
    """A change of the schedule gives each seed another round: find one with as much in it."""
    short = plan(SEED, SECONDS)
    assert (short.world, short.versions) == ("acl", ("5.3.3", "5.5.0"))
    assert [fault.kind for fault in short.faults] == [
        *("older-store", "account", "broker-kill", "one-way", "kill", "account", "queues-grow")
    ]


async def test_accounts_get_rights_and_lose_them() -> None:
    """And are deleted: the moments of faults decide, since these take no time."""
    chances: list[float] = []

    class Accounts:
        async def change(self, number: int, chance: float) -> None:
            chances.append(chance)

    nemesis = Nemesis(cast("Any", SimpleNamespace(accounts=Accounts())), cast("Any", None))
    plans = [plan(f"seed/{number}", 120) for number in range(40)]
    for fault in (fault for each in plans for fault in each.faults if fault.kind == "account"):
        async with nemesis._account(fault):
            pass
    assert {rights(chance) for chance in chances} == {("Sub",), ("Pub",), ("Pub", "Sub"), None}
