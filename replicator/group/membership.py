"""Who is in the group: the workers whose heartbeats have come lately. Pure; time is handed in.

Clocks of different workers are never compared. All times are of one worker's own monotonic clock: when it
heard a heartbeat, and when it sent the newest heartbeat of its own that has come back to it. That echo says
how fresh its view is: members last heard long before the echo are gone, and a worker without echoes knows
nothing of the others, so it expires nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, NamedTuple

from replicator.group.freshness import Echo

__all__ = ["NO_GENERATION", "Generation", "Heartbeat", "MemberState", "Membership", "Side"]


#: Processes that have left, so that late heartbeats of theirs mean nothing.
_REMEMBERED = 1000


class Generation(NamedTuple):
    """Names one assignment; later ones are greater. No two leaders give the same."""

    number: int
    leader: str


NO_GENERATION = Generation(0, "")


class Side(StrEnum):
    """Which of the two heartbeat topics: a worker that cannot reach the target is silent on SINK."""

    SOURCE = "source"
    SINK = "sink"


class MemberState(StrEnum):
    """Where a worker is on its way through the group."""

    ONLINE = "online"
    LEAVING = "leaving"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a worker says of itself.

    `generation` is the assignment that it has adopted: it starts nothing any more that it does not own
    there. `releasing` are the tasks that it does not own there and still runs. `incarnation` is that of the
    process, `sequence` grows within it; `info` is for people. `echo` is its newest heartbeat that had come back.
    """

    worker: str
    incarnation: str
    sequence: int
    stage: MemberState = MemberState.ONLINE
    generation: Generation = NO_GENERATION
    releasing: frozenset[str] = frozenset()
    info: Mapping[str, Any] = field(default_factory=dict)
    echo: Echo | None = None

    @property
    def tasks(self) -> Mapping[str, str]:
        """The tasks that it runs, each with its state."""
        tasks = self.info.get("tasks")
        return tasks if isinstance(tasks, dict) else {}


class _Member:
    """`places` are those at which the process that `heartbeat` is of was heard, `last` is when, on either side.
    Until `leased` it may send, as it has said elsewhere, at `seen` for the last time.
    """

    __slots__ = ("heard", "heartbeat", "last", "leased", "places", "seen")

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat
        self.heard = {Side.SOURCE: -inf, Side.SINK: -inf}
        self.last = self.seen = self.leased = -inf
        self.places: set[Hashable] = set()


class Membership:
    """The other workers of a group, as worker `me` sees them.

    Args:
        timeout: seconds without a heartbeat after which a worker left.
    """

    def __init__(self, me: str, *, timeout: float) -> None:
        self._me = me
        self.timeout = timeout
        self._members: dict[str, _Member] = {}
        self._left: dict[str, None] = {}
        self._echo = {Side.SOURCE: -inf, Side.SINK: -inf}
        #: Since when, and until when, our own heartbeats have come back where no lease is held; None: nobody
        #: listens there.
        self.listened: Callable[[], tuple[float, float] | None] = lambda: None

    @property
    def others(self) -> Mapping[str, Heartbeat]:
        """The newest heartbeat of every other live worker, by its id."""
        return {name: member.heartbeat for name, member in self._members.items()}

    @property
    def echo(self) -> float:
        """When the newest of our own heartbeats that came back was sent."""
        return self._echo[Side.SOURCE]

    def echo_of(self, side: Side) -> float:
        """When the newest of our own heartbeats that came back on `side` was sent."""
        return self._echo[side]

    def last_heard(self) -> dict[str, float]:
        """When each other worker was last heard, by its id."""
        return {name: member.last for name, member in self._members.items() if member.last > -inf}

    @property
    def unheard(self) -> set[str]:
        """The other workers that nothing was heard from for too long, but may hold their lease."""
        echo, timeout = self._echo[Side.SOURCE], self.timeout  # this is asked for every heartbeat that comes
        return {name for name, member in self._members.items() if echo - member.last > timeout}

    def echoed(self, side: Side, sent: float) -> None:
        """A heartbeat of our own has come back."""
        self._echo[side] = max(self._echo[side], sent)

    def fresh(self, side: Side, within: float) -> bool:
        """Whether our own heartbeats on `side` come back as they do on SOURCE, give or take `within` seconds."""
        return self._echo[side] > -inf and self.echo - self._echo[side] <= within

    def heard(self, side: Side, heartbeat: Heartbeat, at: float, *, place: Hashable) -> None:
        """A heartbeat of another worker has come, or was found to have come at `at`.

        Args:
            place: where; heartbeats of one place come in the order in which they were said.
        """
        member = self._member(heartbeat)
        if member is None:
            return
        known = member.heartbeat
        if heartbeat.incarnation != known.incarnation:
            if member.places and place not in member.places:
                return  # of an earlier process, for all we know; a later one is heard at other places, too
            member.places.clear()
            member.heartbeat = heartbeat
        elif heartbeat.sequence >= known.sequence:
            member.heartbeat = heartbeat
        member.places.add(place)
        member.heard[side] = max(member.heard[side], at)
        member.last = max(member.last, at)

    def _member(self, heartbeat: Heartbeat) -> _Member | None:
        """What is known of the other worker that says this; None: it is not there any more."""
        # Over another broker an older heartbeat may come later than the farewell.
        if heartbeat.worker == self._me or heartbeat.incarnation in self._left:
            return None
        member = self._members.get(heartbeat.worker)
        if heartbeat.stage is MemberState.LEFT:
            self._left[heartbeat.incarnation] = None
            if len(self._left) > _REMEMBERED:
                del self._left[next(iter(self._left))]
            if member is not None and member.heartbeat.incarnation == heartbeat.incarnation:
                del self._members[heartbeat.worker]
            return None
        if member is None:
            member = self._members[heartbeat.worker] = _Member(heartbeat)
        return member

    def holds_lease(self, heartbeat: Heartbeat, at: float, until: float) -> None:
        """Another worker is known to hold its lease, and has said `heartbeat` at `at`, not where leases are held.

        Each of two workers may reach another broker of the cluster that holds the leases: neither hears the other
        there. Until then nobody may take its tasks.
        """
        member = self._member(heartbeat)
        if member is None:
            return
        if heartbeat.incarnation != member.heartbeat.incarnation:
            if at > max(member.last, member.seen):  # it was started in that one's place, and has its tasks
                member.seen, member.leased = at, max(member.leased, until)
            return
        if heartbeat.sequence >= member.heartbeat.sequence:
            member.heartbeat = heartbeat
        member.seen, member.leased = max(member.seen, at), max(member.leased, until)

    def expire(self) -> list[str]:
        """Forgets the workers that have fallen silent; their ids."""
        unheard = self.unheard
        if not unheard:
            return []
        listened = self.listened()
        gone = [
            name
            for name, member in self._members.items()
            if name in unheard and not self._may_go_on(member, listened)
        ]
        for name in gone:
            del self._members[name]
        return gone

    def _may_go_on(self, member: _Member, listened: tuple[float, float] | None) -> bool:
        """Whether a worker that is not heard any more may hold its lease."""
        if self.echo <= member.leased:
            return True
        if listened is None:
            return False
        # Who hears nothing elsewhere either does not know; and has no target to send to, for which it may wait.
        since, until = listened
        return until - max(member.last, member.seen, since) <= self.timeout

    def takes_tasks(self) -> set[str]:
        """The other workers that may be given tasks: online, and heard on both sides."""
        return {name for name, member in self._members.items() if self._is_able(member)}

    def has_before(self, worker: str) -> bool:
        """Whether one of them comes before `worker` by its id."""
        # Each step of the group asks this, once for every heartbeat that comes.
        return any(name < worker and self._is_able(member) for name, member in self._members.items())

    def _is_able(self, member: _Member) -> bool:
        if member.heartbeat.stage is not MemberState.ONLINE:
            return False
        if self.echo - member.last > self.timeout:
            return self.echo <= member.leased
        return all(self._echo[side] - at <= self.timeout for side, at in member.heard.items())
