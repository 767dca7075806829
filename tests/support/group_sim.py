"""A group of workers in virtual time: the real coordinators, with a log, clocks and faults that a seed decides.

The log is what RocketMQ gives: three system topics, a queue each; the messages of one queue come in one order to
everybody, each reader with delays of its own, now and then long ones and not all at once; between queues there is
no order. Workers crash and come back, are paused, are cut off (from writing, from saying that they are there on
the source side alone, reading, or the target), join and leave; their clocks differ and drift.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

from replicator.group.assignment import Strategy, sticky
from replicator.group.coordinator import Assignment, Coordinator
from replicator.group.membership import Heartbeat, MemberState, Side

__all__ = ["Group", "Violation"]

QUEUES = SOURCE, SINK, CONTROL = range(3)
#: Messages that come with one answer.
AT_ONCE = 8
TIMEOUT, LEASE, DELAY, BEAT, TICK = 5.0, 3.5, 0.5, 1.0, 0.25


class Violation(AssertionError):
    """Two workers could send for one task at once."""


class Node:
    """One process."""

    def __init__(self, group: Group, name: str, strategy: Strategy) -> None:
        self.group = group
        self.name = name
        self.strategy = strategy
        self.incarnation = 0
        self.alive = self.paused = False
        self.can_write = self.can_say = self.can_read = self.target = True
        self.missed: list[Callable[[], None]] = []

    def now(self) -> float:
        return self.offset + self.group.now * self.rate

    def boot(self) -> None:
        random = self.group.random
        self.alive, self.paused, self.missed = True, False, []
        self.incarnation += 1
        self.process = f"{self.name}-{self.incarnation}"
        self.sequence = 0
        self.offset, self.rate = random.uniform(-1e4, 1e4), random.uniform(0.999, 1.001)
        self.coordinator = Coordinator(self.name, strategy=self.strategy, timeout=TIMEOUT, lease=LEASE, delay=DELAY)
        self.read_until = self.group.position_at(self.group.now - TIMEOUT - 1)
        self.joined = False
        self.last_said: object = None
        self.beats: dict[int, float] = {}
        life = self.incarnation
        # As the real worker does: all that was assigned so far is known before anything else.
        for assignment in self.group.assignments:
            self.coordinator.adopt(assignment)
        self.beat()
        self.group.every(BEAT, self.beat, self, life)
        self.group.every(TICK, self.tick, self, life)

    def crash(self) -> None:
        self.alive = False
        self.group.check()

    def beat(self) -> None:
        coordinator = self.coordinator
        self.sequence += 1
        heartbeat = coordinator.heartbeat(self.process, self.sequence, {})
        self.beats[self.sequence] = self.now()
        self.last_said = (heartbeat.generation, heartbeat.releasing, heartbeat.stage)
        if self.can_write:
            if self.can_say:
                self.group.append(SOURCE, lambda node: node.read(Side.SOURCE, heartbeat))
            if self.target:
                self.group.append(SINK, lambda node: node.read(Side.SINK, heartbeat))

    def read(self, side: Side, heartbeat: Heartbeat) -> None:
        if heartbeat.worker != self.name:
            self.coordinator.membership.heard(side, heartbeat, self.now(), place=side)
        elif heartbeat.incarnation == self.process:
            self.coordinator.echoed(side, heartbeat, self.beats[heartbeat.sequence], self.now())
            self.joined = self.joined or side is Side.SOURCE
        self.tick()

    def read_assignment(self, assignment: Assignment) -> None:
        self.coordinator.adopt(assignment)
        self.tick()

    def tick(self) -> None:
        if not self.joined:
            return
        coordinator, group = self.coordinator, self.group
        decision = coordinator.step(self.now(), group.tasks, wanted=lambda _task: True)
        if decision.fence:
            coordinator.running.clear()
        if decision.publish is not None:
            group.assigned(decision.publish, self)
        for task in decision.stop:
            self.drain(task)
        if decision.start:
            coordinator.running |= decision.start
            group.started(self, decision.start)
        if coordinator.stage is MemberState.LEAVING and not coordinator.running:
            coordinator.stage = MemberState.LEFT
            self.beat()
            self.alive = False
            return
        said = (coordinator.assignment.generation, coordinator.releasing, coordinator.stage)
        if said != self.last_said:
            self.beat()

    def drain(self, task: str) -> None:
        key = (self.name, self.incarnation, task)
        if key in self.group.draining:
            return
        self.group.draining.add(key)
        life = self.incarnation

        def done() -> None:
            self.group.draining.discard(key)
            if self.incarnation == life:
                self.coordinator.running.discard(task)
                self.tick()

        self.group.later(self.group.random.choice((0.01, 0.2, 1.5)), done, self, life)

    def sends(self, task: str) -> bool:
        return (
            self.alive
            and not self.paused
            and task in self.coordinator.running
            and self.coordinator.holds_lease(self.now())
        )


class Group:
    """`members` workers with `tasks` tasks, in a world that `seed` decides."""

    def __init__(self, seed: int, *, members: int, tasks: int, strategy: Strategy = sticky) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.tasks = frozenset(f"route/t{i:03}" for i in range(tasks))
        self.nodes = [Node(self, f"w{i:02}", strategy) for i in range(members)]
        self.logs: list[list[tuple[float, Callable[[Node], None]]]] = [[] for _ in QUEUES]
        self.assignments: list[Assignment] = []
        self.draining: set[tuple[str, int, str]] = set()
        self.moves = 0
        self.starts = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._reads: dict[tuple[str, int, int], float] = {}

    # Time.

    def later(self, delay: float, do: Callable[[], None], node: Node | None = None, life: int = 0) -> None:
        """`do` after `delay`; for a process only while it lives, and once it is continued when paused then."""

        def run() -> None:
            if node is None:
                do()
            elif node.alive and node.incarnation == life:
                if node.paused:
                    node.missed.append(run)
                else:
                    do()

        heapq.heappush(self._events, (self.now + delay, next(self._count), run))

    def every(self, period: float, do: Callable[[], None], node: Node, life: int) -> None:
        def again() -> None:
            do()
            self.later(period * self.random.uniform(0.95, 1.1), again, node, life)

        self.later(period * self.random.random(), again, node, life)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, do = heapq.heappop(self._events)
            do()
        self.now = end

    # The log.

    def position_at(self, time: float) -> list[int]:
        return [next((i for i, (stored, _) in enumerate(log) if stored >= time), len(log)) for log in self.logs]

    def append(self, queue: int, deliver: Callable[[Node], None]) -> None:
        def store() -> None:
            self.logs[queue].append((self.now, deliver))
            for node in self.nodes:
                if node.alive:
                    self._bring(node, queue)

        self.later(self.random.uniform(0.001, 0.02), store)

    def _bring(self, node: Node, queue: int) -> None:
        """Lets `node` read `queue` on, in order, a little later."""
        key = (node.name, node.incarnation, queue)
        slow = self.random.random() < 0.03
        delay = self.random.uniform(0.03, 1.0) if slow else self.random.uniform(0.001, 0.03)
        at = max(self.now + delay, self._reads.get(key, 0.0))
        self._reads[key] = at
        self.later(at - self.now, lambda: self._read_on(node, queue), node, node.incarnation)

    def _bring_all(self, node: Node) -> None:
        for queue in QUEUES:
            self._bring(node, queue)

    def _read_on(self, node: Node, queue: int) -> None:
        for _ in range(AT_ONCE):
            if not (node.alive and node.can_read and node.read_until[queue] < len(self.logs[queue])):
                return
            _, deliver = self.logs[queue][node.read_until[queue]]
            node.read_until[queue] += 1
            deliver(node)
        again = self.random.uniform(0.001, 0.05)
        self.later(again, lambda: self._read_on(node, queue), node, node.incarnation)

    # What workers do.

    def assigned(self, assignment: Assignment, by: Node) -> None:
        if by.can_write:
            if assignment not in self.assignments:
                self.assignments.append(assignment)
            self.append(CONTROL, lambda node: node.read_assignment(assignment))

    def started(self, node: Node, tasks: frozenset[str]) -> None:
        self.starts += len(tasks)
        self.check(tasks)

    def check(self, tasks: frozenset[str] | None = None) -> None:
        for task in tasks if tasks is not None else self.tasks:
            senders = [node.name for node in self.nodes if node.sends(task)]
            if len(senders) > 1:
                raise Violation(f"{task} is sent by {senders} at {self.now:.3f}")

    # Faults.

    def pause(self, node: Node, seconds: float) -> None:
        node.paused = True

        def go_on() -> None:
            if node.paused:
                node.paused = False
                self.check()
                missed, node.missed = node.missed, []
                self.random.shuffle(missed)
                for do in missed:
                    do()

        self.later(seconds, go_on)

    def cut(self, node: Node, what: str, seconds: float) -> None:
        setattr(node, what, False)

        def heal() -> None:
            setattr(node, what, True)
            if node.alive:
                self._bring_all(node)

        self.later(seconds, heal)

    def trouble(self) -> None:
        """Something happens to somebody."""
        chance, node = self.random.random(), self.random.choice(self.nodes)
        if not node.alive:
            node.boot()
        elif chance < 0.25:
            node.crash()
        elif chance < 0.45:
            self.pause(node, self.random.uniform(0.2, 15))
        elif chance < 0.8:
            what = self.random.choice(("can_write", "can_write", "can_say", "can_read", "target"))
            self.cut(node, what, self.random.uniform(0.5, 15))
        elif chance < 0.9:
            node.coordinator.stage = MemberState.LEAVING if node.joined else node.coordinator.stage
        else:
            self.tasks = frozenset(f"route/t{i:03}" for i in range(self.random.randint(1, 2 * len(self.tasks) + 1)))

    def heal(self) -> None:
        """All comes back that was broken; nobody is made to come who left."""
        for node in self.nodes:
            node.can_write = node.can_say = node.can_read = node.target = True
            if node.paused:
                self.pause(node, 0.0)
            elif node.alive:
                self._bring_all(node)

    def settled(self) -> bool:
        """Every task runs once, at its owner, and all agree."""
        alive = [node for node in self.nodes if node.alive]
        return all(sum(node.sends(task) for node in alive) == 1 for task in self.tasks) and all(
            node.coordinator.running == node.coordinator.owned for node in alive
        )
