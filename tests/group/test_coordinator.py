"""What a worker may start, heartbeat by heartbeat."""

from __future__ import annotations

from replicator.group.assignment import sticky
from replicator.group.coordinator import Assignment, Coordinator, Decision
from replicator.group.membership import Generation, Heartbeat, Side

TIMEOUT, LEASE, DELAY = 5.0, 3.5, 0.5


class Worker:
    """A coordinator with one task, all clocks being one; `say` and `read` are its two ways to the log."""

    def __init__(self, name: str) -> None:
        self.coordinator = Coordinator(name, strategy=sticky, timeout=TIMEOUT, lease=LEASE, delay=DELAY)
        self.sequence = 0
        self.sent: dict[int, float] = {}

    def say(self, now: float) -> Heartbeat:
        self.sequence += 1
        self.sent[self.sequence] = now
        return self.coordinator.heartbeat(self.coordinator.me, self.sequence, {})

    def read(self, heartbeat: Heartbeat, now: float) -> None:
        for side in Side:
            if heartbeat.worker == self.coordinator.me:
                self.coordinator.echoed(side, heartbeat, self.sent[heartbeat.sequence], now)
            else:
                self.coordinator.membership.heard(side, heartbeat, now, place=side)

    def step(self, now: float) -> Decision:
        decision = self.coordinator.step(now, {"task"}, wanted=lambda _task: True)
        self.coordinator.running |= decision.start
        return decision


def _leader_without_the_owner() -> tuple[Worker, Worker, list[Heartbeat]]:
    """`a`, just when it has assigned the task of silent `b` to itself; `b`; and what `a` said before."""
    a, b = Worker("a"), Worker("b")
    first = Assignment(generation=Generation(1, "a"), members=frozenset("ab"), owners={"task": "b"})
    for worker in (a, b):
        worker.coordinator.adopt(first)
    a.read(b.say(0.0), 0.0)
    said = [a.say(now) for now in (0.0, 2.5, 5.1)]
    for heartbeat, now in zip(said, (0.0, 2.5, 5.1), strict=True):
        a.read(heartbeat, now)
        a.step(now)
    assert not a.coordinator.membership.others
    decision = a.step(5.1 + DELAY)
    assert decision.publish is not None
    assert decision.publish.owners == {"task": "a"}
    assert not decision.start, "nobody can know yet that it is no longer another's"
    return a, b, said


def test_a_leader_that_cannot_tell_starts_nothing() -> None:
    a, b, said = _leader_without_the_owner()
    for now in (5.7, 6.7, 7.7):
        a.say(now)  # lost, as was the assignment
        assert not a.step(now).start
    # The owner is back: all that it can read says that `a` leaves its task to it.
    for heartbeat in (*said, b.say(7.8)):
        b.read(heartbeat, 7.8)
    b.step(7.8)
    assert b.step(7.8 + DELAY).start == {"task"}
    assert a.coordinator.holds_lease(7.8 + DELAY)
    assert not a.step(7.8 + DELAY).start


def test_a_leader_that_was_read_starts_and_the_owner_that_is_back_waits() -> None:
    a, b, said = _leader_without_the_owner()
    told = a.say(5.7)
    a.read(told, 5.7)
    assert a.step(5.7).start == {"task"}
    for heartbeat in (*said, told, b.say(7.8)):
        b.read(heartbeat, 7.8)
    b.step(7.8)
    assert not b.step(7.8 + DELAY).start


def test_what_came_back_before_does_not_tell_of_a_later_assignment() -> None:
    a, _, _ = _leader_without_the_owner()
    late = a.say(5.7)
    newer = Assignment(generation=Generation(3, "a"), members=frozenset("a"), owners={"task": "a"})
    a.coordinator.adopt(newer)
    a.read(late, 5.8)
    assert not a.step(5.8).start
    a.read(a.say(5.9), 5.9)
    assert a.step(5.9).start == {"task"}


def test_what_another_connector_still_sends_is_waited_for() -> None:
    """Here and elsewhere; other queues of the own connector's topic are no matter."""
    a, b = Worker("a"), Worker("b")
    tasks = ["new/t", "own/u/x/1", "other/v"]
    made = Assignment(generation=Generation(1, "a"), members=frozenset("ab"), owners=dict.fromkeys(tasks, "a"))
    for worker in (a, b):
        worker.coordinator.adopt(made)
    a.coordinator.running = {"old/t"}
    b.coordinator.running = {"own/u/x/0", "gone/v"}

    def startable(now: float) -> set[str]:
        a.read(b.say(now), now)
        a.read(a.say(now), now)
        return set(a.coordinator.step(now, tasks, wanted=lambda _task: True).start)

    startable(0.0)
    assert startable(DELAY) == {"own/u/x/1"}
    a.coordinator.running = set()
    assert startable(1.0) == {"own/u/x/1", "new/t"}
    b.coordinator.running = set()
    assert startable(1.5) == {*tasks}


def test_it_is_known_who_had_what_has_become_ours() -> None:
    """Until it is taken out; what stays ours comes from nobody again."""
    coordinator = Worker("a").coordinator
    for number, owners in enumerate(({"x": "a", "y": "b"}, {"x": "a", "y": "a", "z": "a"}), start=1):
        coordinator.adopt(Assignment(generation=Generation(number, "a"), members=frozenset("ab"), owners=owners))
        if number == 1:
            assert coordinator.came_from == {"x": ""}
            del coordinator.came_from["x"]
    assert coordinator.came_from == {"y": "b", "z": ""}


def test_an_owner_that_is_known_to_hold_its_lease_keeps_its_task() -> None:
    """Nobody hears it where leases are held; it is said once."""
    a, b = Worker("a"), Worker("b")
    for worker in (a, b):
        worker.coordinator.adopt(
            Assignment(generation=Generation(1, "a"), members=frozenset("ab"), owners={"task": "b"})
        )
    a.read(b.say(0.0), 0.0)
    told = []
    for now in range(12):
        a.coordinator.membership.holds_lease(b.say(now), now, now + LEASE)
        a.read(a.say(now), now)
        decision = a.step(now)
        assert (decision.publish, decision.start, decision.lost) == (None, frozenset(), ())
        told += [(now, name) for name in decision.unheard]
    assert told == [(6, "b")]
    for now in (12, 13, 14, 15, 16):
        a.read(a.say(now), now)
        lost = a.step(now).lost
        assert lost == (("b",) if now == 15 else ())


def test_who_gets_its_lease_back_hears_first_who_holds_one() -> None:
    """Its tasks may be another's by now, whom it does not hear where leases are held."""
    hearing = 1.5
    worker = Worker("a")
    worker.coordinator = Coordinator(
        "a", strategy=sticky, timeout=TIMEOUT, lease=LEASE, delay=DELAY, hearing=hearing
    )
    worker.coordinator.adopt(
        Assignment(generation=Generation(1, "a"), members=frozenset("a"), owners={"task": "a"})
    )
    worker.read(worker.say(0.0), 0.0)
    worker.step(0.0)
    assert worker.step(DELAY).start == {"task"}, "at first nobody has taken anything"
    worker.coordinator.running.clear()
    assert worker.step(10.0).fence
    worker.read(worker.say(11.0), 11.0)
    assert not worker.step(11.0).start
    assert not worker.step(11.0 + DELAY).start
    assert worker.step(11.0 + DELAY + hearing).start == {"task"}


def test_who_cannot_be_told_holds_no_change_up() -> None:
    """It keeps its tasks, so none of them starts elsewhere; what people ask for goes on."""
    a, b = Worker("a"), Worker("b")
    a.read(a.say(0.0), 0.0)
    a.coordinator.membership.holds_lease(b.say(0.0), 0.0, 100.0)
    a.read(a.say(TIMEOUT + 1.0), TIMEOUT + 1.0)
    a.coordinator.adopt(Assignment(generation=Generation(1, "a"), members=frozenset("a"), owners={"task": "a"}))
    a.read(a.say(TIMEOUT + 1.1), TIMEOUT + 1.1)
    assert not a.coordinator.agreed
    assert not a.coordinator.changing_hands
    assert not a.step(TIMEOUT + 2.0).start
