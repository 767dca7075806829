"""What workers say of their leases at the target, where none is held."""

from __future__ import annotations

import pytest

from replicator.group import lease_notice
from replicator.group.control_log import LogMessage
from replicator.group.lease_notice import LeaseNotices, with_notice
from replicator.group.membership import Generation, Heartbeat
from replicator.routing.message_queue import MessageQueue

A, B = MessageQueue("online", "west-a", 0), MessageQueue("online", "west-b", 0)
MEMBER = Heartbeat(
    worker="w2",
    incarnation="of the group",
    sequence=7,
    generation=Generation(3, "w1"),
    releasing=frozenset({"r/T"}),
)


def at_the_target(seconds: float) -> Heartbeat:
    info = with_notice({"tasks": {"r/U": "RUNNING"}}, MEMBER, seconds)
    return Heartbeat(worker="w2", incarnation="of the mirror", sequence=99, info=info)


def said(queue: MessageQueue, stored: int = 0) -> LogMessage:
    return LogMessage(queue, b"", stored)


class Clock:
    """Ours; that of the broker of a queue shows 50 s less."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[tuple[Heartbeat, float, float]] = []
        self.notices = LeaseNotices(most=5.0)
        self.notices.on_lease = lambda member, at, until: self.told.append((member, at, until))

    def hear(self, queue: MessageQueue, heartbeat: Heartbeat, *, at: float) -> None:
        """Reads, now, what was stored at second `at`."""
        self.notices.heard(LogMessage(queue, b"", int((at - 50) * 1000)), heartbeat)

    def hear_own(self, queue: MessageQueue, *, at: float) -> None:
        self.notices.echoed(LogMessage(queue, b"", int((at - 50) * 1000)), at)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(lease_notice, "now", lambda: made.now)
    return made


def test_the_group_is_told_what_it_would_hear_itself(clock: Clock) -> None:
    clock.hear_own(A, at=100.0)
    clock.hear(A, at_the_target(3.0), at=100.0)
    ((member, at, until),) = clock.told
    assert (at, until) == (100.0, 103.0)
    assert (member.worker, member.incarnation, member.sequence) == ("w2", "of the group", 7)
    assert (member.generation, member.releasing, member.tasks) == (
        Generation(3, "w1"),
        frozenset({"r/T"}),
        {"r/U": "RUNNING"},
    )


@pytest.mark.parametrize("seconds", [0.0, -3.0])
def test_who_may_not_send_keeps_nothing(clock: Clock, seconds: float) -> None:
    clock.hear_own(A, at=100.0)
    clock.hear(A, at_the_target(seconds), at=100.0)
    assert clock.told == []


def test_nobody_has_a_lease_for_longer_than_there_are(clock: Clock) -> None:
    clock.hear_own(A, at=100.0)
    clock.hear(A, at_the_target(1e9), at=100.0)
    assert clock.told[0][2] == 105.0


@pytest.mark.parametrize("info", [{}, {"lease": 3}, {"lease": {"seconds": 3}}])
def test_what_says_nothing_of_a_lease_is_none(clock: Clock, info: dict[str, object]) -> None:
    """As a heartbeat of an earlier version."""
    clock.hear_own(A, at=100.0)
    clock.hear(A, Heartbeat(worker="w2", incarnation="i", sequence=1, info=info), at=100.0)
    assert clock.told == []


def test_what_was_said_before_we_came_waits_for_the_brokers_clock(clock: Clock) -> None:
    """Of each queue, until our own heartbeat has come back from there; of each process the last."""
    clock.hear(A, at_the_target(3.0), at=97.0)
    clock.hear(A, at_the_target(3.0), at=99.0)
    clock.hear(B, at_the_target(3.0), at=95.0)
    assert clock.told == []
    clock.hear_own(A, at=100.0)
    clock.hear_own(B, at=100.0)
    assert [(at, until) for _, at, until in clock.told] == [(99.0, 102.0)]


def test_what_is_read_late_is_as_old_as_it_is(clock: Clock) -> None:
    """The target was away for a minute: what others had said just before that is over, and their leases with it."""
    clock.hear_own(A, at=100.0)
    clock.now = 160.0
    clock.hear(A, at_the_target(3.0), at=101.0)
    clock.hear_own(A, at=101.0)
    clock.hear(A, at_the_target(3.0), at=101.0)
    assert clock.told == []
    clock.hear(A, at_the_target(3.0), at=159.0)
    assert [member.worker for member, _, _ in clock.told] == ["w2"]
