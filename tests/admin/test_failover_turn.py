"""One failover of a connector at a time, whoever is asked for it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.admin import running_tasks, topic_lag
from replicator.admin.failover_turn import (
    NotNow,
    decided_by_hand,
    failed_over_at,
    note,
    refuse_replaced,
    stopped_by_failover,
    taking_turn,
)
from replicator.connector.route import Route
from replicator.state.connector_configs import State
from replicator.state.record_types import fit
from replicator.worker.worker import Worker
from tests.admin.failover_setup import Reader, Setup


class Group:
    """Two workers; both see the records at once."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}
        ledger = SimpleNamespace(get=lambda what: self.records.get(what, {}), put=self.put)
        self.route = cast("Route", SimpleNamespace(name="route", sync=SimpleNamespace(ledger=ledger)))
        self.workers = {name: self.worker(name) for name in ("w1", "w2")}
        for name, worker in self.workers.items():
            for other in self.workers.keys() - {name}:
                worker.others[other] = SimpleNamespace(incarnation=f"of {other}")

    def put(self, what: str, value: dict[str, Any]) -> None:
        """As others take it: only what is of the record's form."""
        fit("sync", f"route/{what}", [1, "w"], value, now=time.time())
        self.records[what] = value

    def worker(self, name: str) -> Any:
        return SimpleNamespace(
            id=name,
            group=SimpleNamespace(incarnation=f"of {name}"),
            mirror=SimpleNamespace(incarnation=f"of {name} at the target"),
            switching=set(),
            others={},
            seen_at_target={},
            settings=SimpleNamespace(session_timeout=0.1),
        )

    def turn(self, name: str, *, source_dead: bool = False) -> Any:
        return taking_turn(cast("Worker", self.workers[name]), self.route, source_dead=source_dead)


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.mark.parametrize("second", ["w1", "w2"])
async def test_there_is_one_at_a_time(group: Group, second: str) -> None:
    async with group.turn("w1"):
        with pytest.raises(NotNow, match="failover of connector route"):
            async with group.turn(second):
                raise AssertionError("it must not come in")
        refuse_replaced(group.workers["w1"], group.route)
    async with group.turn(second):
        assert group.records["failover"]["by"] == second
    assert group.records["failover"] == {}


@pytest.mark.parametrize("again", [False, True])
async def test_nobody_waits_for_one_that_has_died(group: Group, *, again: bool) -> None:
    """Nor for the one that was started in its place. What it has left to be done, is still known."""
    group.records["failover"] = {"by": "w1", "incarnation": "of w1", "resume": "RUNNING"}
    if again:
        group.workers["w2"].others["w1"] = SimpleNamespace(incarnation="another")
    else:
        del group.workers["w2"].others["w1"]
    async with group.turn("w2"):
        pass
    assert group.records["failover"] == {"resume": "RUNNING"}


async def test_with_the_source_dead_others_are_seen_at_the_target(group: Group) -> None:
    """What was heard over the source's topics may be of before its death."""
    group.records["failover"] = {"by": "w1", "incarnation": "of w1"}
    async with group.turn("w2", source_dead=True):
        pass
    group.workers["w2"].seen_at_target = {"w1": SimpleNamespace(incarnation="of w1 at the target")}
    async with group.turn("w1", source_dead=True):
        with pytest.raises(NotNow):
            async with group.turn("w2", source_dead=True):
                raise AssertionError("it must not come in")


async def test_what_is_noted_is_taken_by_others_and_over_when_somebody_decides(group: Group) -> None:
    """A record that is not of its form would be heard by nobody, and lost at a restart."""
    ledger = group.route.sync.ledger
    async with group.turn("w1"):
        note(ledger, resume="RUNNING", opened=True)
        decided_by_hand(ledger)
        assert group.records["failover"].keys() == {"by", "incarnation", "at_target"}
        note(ledger, opened=True)
    assert group.records["failover"] == {"opened": True}
    decided_by_hand(ledger)
    assert group.records["failover"] == {}


async def test_of_two_that_begin_at_once_one_sees_the_other(group: Group) -> None:
    async with group.turn("w1"):
        group.records["failover"] = {"by": "w2", "incarnation": "of w2"}
        with pytest.raises(NotNow, match="another worker has begun"):
            refuse_replaced(group.workers["w1"], group.route)
    assert group.records["failover"]["by"] == "w2"


async def test_when_a_route_was_failed_over_is_known_while_it_stays_so(group: Group) -> None:
    ledger = group.route.sync.ledger
    assert failed_over_at(ledger, State.STOPPED) is None
    note(ledger, failed_over_at=12.5)
    async with group.turn("w1"):
        assert failed_over_at(ledger, State.STOPPED) == 12.5
    assert failed_over_at(ledger, State.RUNNING) is None
    decided_by_hand(ledger)
    assert failed_over_at(ledger, State.STOPPED) is None


@pytest.mark.parametrize("dead", [False, True])
async def test_that_it_was_failed_over_is_remembered(monkeypatch: pytest.MonkeyPatch, *, dead: bool) -> None:
    """Where all was done that can be; of some topics nothing is, the route runs without them."""
    setup = Setup()
    setup.source.reader = lambda _: Reader("alive")
    for name, seconds in (("_SECONDS", 0.01), ("_POLL_INTERVAL", 0.001)):
        monkeypatch.setattr(running_tasks, name, seconds)
    for name in ("max_offset", "min_offset"):
        monkeypatch.setattr(topic_lag, name, setup.end)
    await setup.switch(topics=frozenset({"T1"}), source_dead=dead)
    assert "failed_over_at" not in setup.kept["failover"]
    setup.state, setup.worker.coordinator.running = State.RUNNING, {"route/T1"}
    await setup.switch(source_dead=dead)
    assert "failed_over_at" not in setup.kept["failover"]
    assert stopped_by_failover(setup.sync.ledger, setup.state) == setup.kept["failover"]["begun_at"] > 0
    setup.worker.coordinator.running = set()
    await setup.switch(source_dead=dead)
    assert setup.kept["failover"]["failed_over_at"] > 0
    decided_by_hand(setup.sync.ledger)
    assert stopped_by_failover(setup.sync.ledger, setup.state) is None
