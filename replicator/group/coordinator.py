"""What one worker of a group does next. Pure: it is given the time and returns a decision.

- The worker with the least id among those that may have tasks leads: it names the next assignment when
  members or tasks have changed. Everybody computes the same; the leader's word makes it one at a time.
- Break before make: a worker starts a task of its own only when every other live worker has
  adopted the very same assignment and does not release that task any more. Adopting comes with a promise:
  nothing is started that is not one's own there. Others rely on it until they read of a later one, so a
  worker starts nothing either before a heartbeat that reports its adoption has come back. Then no two run
  one task: of the heartbeats that they start it by, one is earlier in the log. The writer of the later one
  has read it, and waits until the other says that it has adopted the same, or is gone.
- Nor does it start a task on a topic on which another connector's task is still being released somewhere: what
  that one has pulled it still sends.
- Lease: a worker may send only while the newest of its heartbeats that came back to it was sent less than
  a lease ago. Others call it gone later than that, after the session timeout. So a worker that was paused,
  or cut off, has ended by itself before anyone takes over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from replicator.group.assignment import Strategy
from replicator.group.membership import NO_GENERATION, Generation, Heartbeat, Membership, MemberState, Side
from replicator.routing.task_id import TaskId

__all__ = ["Assignment", "Coordinator", "Decision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who owns which task; `members` are those that it was computed for."""

    generation: Generation = NO_GENERATION
    members: frozenset[str] = frozenset()
    owners: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done now.

    `fence`: end all tasks at once, without waiting for anything. `stop`: drain these. `publish`: write this
    assignment to the control log, and adopt it. `lost` are the workers that have just fallen silent, `unheard`
    those that have, too, but are known to hold their lease.
    """

    fence: bool = False
    stop: frozenset[str] = frozenset()
    start: frozenset[str] = frozenset()
    publish: Assignment | None = None
    lost: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()


class Coordinator:
    """The part of worker `me` in its group.

    Args:
        timeout: seconds after which a silent worker left.
        lease: seconds for which we may send after sending a heartbeat that came back; less than `timeout`.
        delay: seconds that members or tasks must have stayed the same before a new assignment.
        republish: seconds after which an assignment that is not agreed on is published again.
        hearing: seconds in which others say of themselves, where leases are not held, that they have theirs.
    """

    def __init__(
        self,
        me: str,
        *,
        strategy: Strategy,
        timeout: float,
        lease: float,
        delay: float,
        republish: float = 2.0,
        hearing: float = 0.0,
    ) -> None:
        self.me = me
        self.membership = Membership(me, timeout=timeout)
        self.assignment = Assignment()
        #: The tasks that the assignment gives to us.
        self.owned: set[str] = set()
        #: The tasks that run here or are being started or stopped; whoever carries out decisions keeps it.
        self.running: set[str] = set()
        #: Of tasks that have become ours, their previous owner; "": none. Removed when they start.
        self.came_from: dict[str, str] = {}
        self.stage = MemberState.ONLINE
        self._strategy = strategy
        self._lease = lease
        self._delay = delay
        self._republish = republish
        self._hearing = hearing
        #: The generation in the newest of our heartbeats that came back: others can read that we have adopted it.
        self._echoed_generation = NO_GENERATION
        #: Whether the lease was held at the last step, and whether it ever was.
        self._held = self._was_held = False
        self._unheard: set[str] = set()
        #: The lease ran out between two steps, and a heartbeat came back before the second. Others may have taken
        #: over in between, so it counts as lost until that step has fenced.
        self._lapsed = False
        #: No task starts before this time.
        self._start_from = -inf
        #: What the next assignment depends on, and since when it is as it is.
        self._situation: object = None
        self._since = -inf
        #: When this worker last published an assignment.
        self._published = -inf

    def holds_lease(self, now: float) -> bool:
        """Whether this worker may send to the target now."""
        return not self._lapsed and now - self.membership.echo <= self._lease

    def lease_left(self, now: float) -> float:
        """Seconds that this worker may still send; 0 or less if it may not."""
        return 0.0 if self._lapsed else self._lease - (now - self.membership.echo)

    def echoed(self, side: Side, heartbeat: Heartbeat, sent: float, now: float) -> None:
        """A heartbeat of our own, sent at `sent`, has come back; a lease that was over by then stays over."""
        self._lapsed = self._lapsed or (self._held and now - self.membership.echo > self._lease)
        self.membership.echoed(side, sent)
        if side is Side.SOURCE:  # the one that leases are of
            self._echoed_generation = max(self._echoed_generation, heartbeat.generation)

    @property
    def releasing(self) -> frozenset[str]:
        """The tasks that still run here but are assigned to another worker, or to none."""
        return frozenset(self.running if self.stage is not MemberState.ONLINE else self.running - self.owned)

    @property
    def agreed(self) -> bool:
        """Whether every live worker has adopted our assignment, and could read that we have."""
        return self._is_adopted_by(self.membership.others.values())

    def _is_adopted_by(self, others: Iterable[Heartbeat]) -> bool:
        generation = self.assignment.generation
        return self._echoed_generation == generation and all(other.generation == generation for other in others)

    @property
    def changing_hands(self) -> bool:
        """Whether a worker has not adopted our assignment yet, or still runs another worker's task."""
        return not self.adopted or bool(self.releasing) or any(other.releasing for other in self._heard)

    @property
    def adopted(self) -> bool:
        """Whether every worker that is heard has adopted our assignment.

        Who is not heard where leases are held cannot be told, and is not waited for: it keeps what it has.
        """
        return self._is_adopted_by(self._heard)

    @property
    def _heard(self) -> list[Heartbeat]:
        unheard = self.membership.unheard
        return [other for name, other in self.membership.others.items() if name not in unheard]

    def stable(self, wanted: Callable[[str], bool]) -> bool:
        """Whether nothing changes hands, and all of our own tasks that are `wanted` run."""
        return not self.changing_hands and not any(map(wanted, self.owned - self.running))

    def adopt(self, assignment: Assignment) -> bool:
        """Takes `assignment` if it is later than what we have; whether it was."""
        later = assignment.generation > self.assignment.generation
        if later:
            before = self.assignment.owners
            self.assignment = assignment
            self.owned = {task for task, owner in assignment.owners.items() if owner == self.me}
            for task in self.owned:
                if before.get(task) != self.me:
                    self.came_from[task] = before.get(task, "")
        return later

    def unowned(self, tasks: Collection[str]) -> set[str]:
        """Those of `tasks` that no live worker has by our assignment."""
        owners = self.assignment.owners
        found = {task for task in tasks if task not in owners}
        if dead := set(owners.values()) - {self.me, *self.membership.others}:
            found.update(task for task in tasks if owners.get(task) in dead)
        return found

    def leads(self) -> bool:
        """Whether this worker names the assignments; only workers that may have tasks do."""
        return self._may_have_tasks and not self.membership.has_before(self.me)

    def speaks_for_all(self) -> bool:
        """Whether this worker does what one does for the group: the leader, or the first one if nobody leads."""
        return self.me == min(self.takes_tasks() or {self.me, *self.membership.others})

    def takes_tasks(self) -> set[str]:
        """The workers that may be given tasks."""
        able = self.membership.takes_tasks()
        return able | {self.me} if self._may_have_tasks else able

    @property
    def _may_have_tasks(self) -> bool:
        """Whether this worker may be given tasks: one that the target is away for hears nothing of itself there."""
        return self.stage is MemberState.ONLINE and self.membership.fresh(Side.SINK, self._lease)

    def step(self, now: float, tasks: Collection[str] | None, *, wanted: Callable[[str], bool]) -> Decision:
        """Decides what to do, given the state of the group at `now`.

        Args:
            tasks: all tasks of the group; None while they are not known.
            wanted: whether a task that may be started is to run now.
        """
        lost = tuple(self.membership.expire())
        if not self.holds_lease(now):
            fence = self._held  # only at the first step without the lease: afterwards nothing runs here
            self._held = self._lapsed = False
            return Decision(fence=fence, lost=lost)
        if not self._held:
            # What was said while we were away may still be on its way to us, unless we have just come.
            away = self._delay + (self._hearing if self._was_held else 0.0)
            self._start_from = now + away if self.assignment.generation.number else now
            self._held = self._was_held = True
        before, self._unheard = self._unheard, self.membership.unheard
        publish = self._next_assignment(now, tasks)
        if publish is not None:
            self.adopt(publish)
        stop = self.releasing | {task for task in self.running if not wanted(task)}
        return Decision(
            stop=frozenset(stop),
            start=self._startable(now, wanted),
            publish=publish,
            lost=lost,
            unheard=tuple(sorted(self._unheard - before)),
        )

    def _startable(self, now: float, wanted: Callable[[str], bool]) -> frozenset[str]:
        """Our own tasks that do not run and that nobody else can still be running."""
        if self.stage is not MemberState.ONLINE or now < self._start_from:
            return frozenset()
        idle = self.owned - self.running
        if not idle or not self.agreed:
            return frozenset()
        releasing = self.releasing.union(*(other.releasing for other in self.membership.others.values()))
        ending: defaultdict[str, set[str]] = defaultdict(set)
        for task in map(TaskId.parse, releasing):
            ending[task.name].add(task.connector)

        def is_free(task: TaskId) -> bool:
            return ending[task.name] <= {task.connector}

        return frozenset(task for task in idle - releasing if wanted(task) and is_free(TaskId.parse(task)))

    def _next_assignment(self, now: float, tasks: Collection[str] | None) -> Assignment | None:
        if tasks is None or not self.leads():
            self._situation = None
            return None
        members = frozenset(self.takes_tasks())
        latest = max((o.generation for o in self.membership.others.values()), default=NO_GENERATION)
        ahead = latest > self.assignment.generation  # we have missed an assignment and do not know its content
        situation = (members, frozenset(tasks), latest if ahead else None)
        if situation != self._situation:
            self._situation, self._since = situation, now
        # The delay lets workers that start or end together lead to one assignment. The first worker of a group has
        # nothing to move and nobody to wait for.
        alone = not self.membership.others
        if now - self._since < self._delay and not (alone and not self.assignment.owners):
            return None
        same = members == self.assignment.members and self.assignment.owners.keys() == set(tasks)
        if same and not ahead:
            return self._again(now)
        number = max(self.assignment.generation.number, latest.number) + 1
        owners = self._strategy(members, tasks, self.assignment.owners)
        self._published = now
        return Assignment(generation=Generation(number, self.me), members=members, owners=owners)

    def _again(self, now: float) -> Assignment | None:
        """The assignment once more, when it does not seem to have reached everybody."""
        if self.agreed or now - self._published < self._republish:
            return None
        self._published = now
        return self.assignment

    def heartbeat(self, incarnation: str, sequence: int, info: Mapping[str, object]) -> Heartbeat:
        """What we say of ourselves now."""
        return Heartbeat(
            worker=self.me,
            incarnation=incarnation,
            sequence=sequence,
            stage=self.stage,
            generation=self.assignment.generation,
            releasing=self.releasing,
            info=info,
        )
