"""Which tasks no live worker owns, and for how long: joins, takeovers and lost leases raise no alarm."""

from __future__ import annotations

from replicator.group.assignment import sticky
from replicator.group.coordinator import Assignment, Coordinator
from replicator.group.membership import Generation, Heartbeat, Side
from replicator.group.unowned_tasks import UnownedTasks

TASKS = {"route/a", "route/b"}


def group(now: float, *others: str) -> Coordinator:
    """That of worker `w`, which has heard itself and `others` at `now`."""
    coordinator = Coordinator("w", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    hear(coordinator, now, *others)
    return coordinator


def hear(coordinator: Coordinator, now: float, *others: str) -> None:
    for side in Side:
        coordinator.echoed(side, Heartbeat(worker="w", incarnation="w", sequence=1), now, now)
        for name in others:
            beat = Heartbeat(worker=name, incarnation=name, sequence=1)
            coordinator.membership.heard(side, beat, now, place="a")


def give(coordinator: Coordinator, number: int, owners: dict[str, str]) -> None:
    members = frozenset({"w", *owners.values()})
    coordinator.adopt(Assignment(generation=Generation(number, "a"), members=members, owners=owners))


def test_what_the_assignment_leaves_out_and_what_the_dead_have() -> None:
    """Each counts for as long as nobody alive has it."""
    coordinator, unowned = group(0.0, "x"), UnownedTasks()
    give(coordinator, 1, {"route/a": "x"})
    unowned.update(coordinator, TASKS, 0.0)
    assert unowned.older(0.0, 3.0) == {"route/b": 3.0}
    hear(coordinator, 4.0, "x")
    give(coordinator, 2, {"route/a": "gone", "route/b": "w"})
    unowned.update(coordinator, TASKS, 4.0)
    assert unowned.older(0.0, 6.0) == {"route/a": 2.0}
    hear(coordinator, 7.0, "x")
    give(coordinator, 3, {"route/a": "x"})
    unowned.update(coordinator, TASKS, 7.0)
    assert unowned.older(0.0, 8.0) == {"route/b": 1.0}
    assert unowned.older(2.0, 8.0) == {}
    unowned.update(coordinator, {"route/a"}, 9.0)
    assert unowned.older(0.0, 9.0) == {}, "its connector was stopped, or its topic deleted"


def test_a_takeover_is_over_before_it_counts() -> None:
    """The owner has died: its tasks have an owner until it counts as gone, and another one right afterwards."""
    coordinator, unowned = group(0.0, "x"), UnownedTasks()
    give(coordinator, 1, dict.fromkeys(TASKS, "x"))
    longest = 0.0
    for quarter in range(40):
        now = quarter / 4
        hear(coordinator, now)
        coordinator.step(now, TASKS, wanted=lambda _: True)
        unowned.update(coordinator, TASKS, now)
        longest = max([longest, *unowned.older(0.0, now).values()])
    assert coordinator.owned == TASKS
    assert longest < 1.0


def test_without_a_lease_nothing_is_known() -> None:
    """The group may have assigned the tasks meanwhile; what is left when the lease is back counts from then on."""
    coordinator, unowned = group(0.0), UnownedTasks()
    unowned.update(coordinator, TASKS, 0.0)
    unowned.update(coordinator, TASKS, 60.0)
    assert unowned.older(0.0, 60.0) == {}
    hear(coordinator, 61.0)
    unowned.update(coordinator, TASKS, 61.0)
    assert unowned.older(1.0, 61.5) == {}
    assert set(unowned.older(1.0, 62.0)) == TASKS
