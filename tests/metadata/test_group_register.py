"""Of which groups offsets can be committed, and what is not known of brokers that are away."""

from __future__ import annotations

from typing import Any, cast

import pytest

from replicator.client.groups import GroupTable
from replicator.metadata import group_register
from replicator.metadata.clusters import Tables
from replicator.metadata.group_register import GroupRegister


class Side:
    """The brokers of one cluster with their groups; those in `away` do not answer."""

    def __init__(self, *, newer: bool = True, **groups: set[str]) -> None:
        self.groups = groups
        self.newer = newer
        self.away: set[str] = set()
        self.failures: dict[str, str] = {}
        self.tables: dict[str, GroupTable] = {}
        self.reads = 0

    async def refresh(self) -> dict[str, GroupTable]:
        self.reads += 1
        self.failures = dict.fromkeys(self.away, "away")
        modes: Any = {} if self.newer else None
        now = {name: GroupTable({each: {} for each in has}, {}, (), modes) for name, has in self.groups.items()}
        self.tables |= {name: table for name, table in now.items() if name not in self.away}
        return self.tables


def register(source: Side, target: Side) -> GroupRegister:
    return GroupRegister(cast("Tables[GroupTable]", source), cast("Tables[GroupTable]", target))


async def test_a_name_that_is_no_group_anywhere() -> None:
    """One that is a group at any broker of the source is made at each of the target."""
    source, target = Side(a={"G"}, b={"H"}), Side(x={"G"}, y=set())
    under_test = register(source, target)
    await under_test.learn({"G", "H", "orphan"})
    taken = {name for name in ("G", "H", "orphan") if under_test.is_taken("y", name)}
    assert taken == {"G", "H"}


async def test_what_the_target_takes_all_the_same() -> None:
    """A group that only the target has, and any name at 4.9; a broker that is away has not said."""
    under_test = register(Side(a=set()), Side(x={"orphan"}, y=set()))
    await under_test.learn({"orphan"})
    assert [under_test.is_taken(broker, "orphan") for broker in ("x", "y", "away")] == [True, False, True]
    under_test = register(Side(a=set()), Side(x=set(), newer=False))
    await under_test.learn({"orphan"})
    assert under_test.is_taken("x", "orphan")


async def test_a_broker_that_is_away_may_have_it() -> None:
    """What it was known not to have when it answered is left out all the same."""
    source, target = Side(a={"G"}, b=set()), Side(x=set())
    source.away = {"b"}
    under_test = register(source, target)
    await under_test.learn({"orphan"})
    assert under_test.is_taken("x", "orphan")
    source.away = set()
    await under_test.learn({"orphan"})
    assert not under_test.is_taken("x", "orphan")
    source.away = {"b"}
    await under_test.learn({"orphan", "new"})
    assert [under_test.is_taken("x", name) for name in ("orphan", "new")] == [False, True]


async def test_tables_are_read_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is not known may be a group by now; one that is known is a group for a minute."""
    source, target = Side(a={"G"}), Side(x={"G"})
    under_test = register(source, target)
    for _ in range(3):
        await under_test.learn({"G"})
    assert (source.reads, target.reads) == (1, 0)
    source.groups["a"] = {"G", "new"}
    await under_test.learn({"G", "new"})
    assert (source.reads, target.reads, under_test.is_taken("x", "new")) == (2, 0, True)
    source.groups["a"], target.groups["x"] = set(), set()
    monkeypatch.setattr(group_register, "_BELIEVED", 0.0)
    await under_test.learn({"G"})
    assert not under_test.is_taken("x", "G")
