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


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Heartbeat, float]]:
    """What the group is told; it is second 100."""
    monkeypatch.setattr(lease_notice, "now", lambda: 100.0)
    return []


def notices(heard: list[tuple[Heartbeat, float]], most: float = 5.0) -> LeaseNotices:
    made = LeaseNotices(most=most)
    made.on_lease = lambda member, until: heard.append((member, until))
    return made


def test_the_group_is_told_what_it_would_hear_itself(heard: list[tuple[Heartbeat, float]]) -> None:
    made = notices(heard)
    made.echoed(said(A))
    made.heard(said(A), at_the_target(3.0))
    ((member, until),) = heard
    assert until == 103.0
    assert (member.worker, member.incarnation, member.sequence) == ("w2", "of the group", 7)
    assert (member.generation, member.releasing, member.tasks) == (
        Generation(3, "w1"),
        frozenset({"r/T"}),
        {"r/U": "RUNNING"},
    )


@pytest.mark.parametrize("seconds", [0.0, -3.0])
def test_who_may_not_send_keeps_nothing(heard: list[tuple[Heartbeat, float]], seconds: float) -> None:
    made = notices(heard)
    made.echoed(said(A))
    made.heard(said(A), at_the_target(seconds))
    assert heard == []


def test_nobody_has_a_lease_for_longer_than_there_are(heard: list[tuple[Heartbeat, float]]) -> None:
    made = notices(heard)
    made.echoed(said(A))
    made.heard(said(A), at_the_target(1e9))
    assert heard[0][1] == 105.0


@pytest.mark.parametrize("info", [{}, {"lease": 3}, {"lease": {"seconds": 3}}])
def test_what_says_nothing_of_a_lease_is_none(
    heard: list[tuple[Heartbeat, float]], info: dict[str, object]
) -> None:
    """As a heartbeat of an earlier version."""
    made = notices(heard)
    made.echoed(said(A))
    made.heard(said(A), Heartbeat(worker="w2", incarnation="i", sequence=1, info=info))
    assert heard == []


def test_what_was_said_before_we_came_is_as_old_as_the_broker_says(heard: list[tuple[Heartbeat, float]]) -> None:
    """Of each queue, once our own heartbeat has come back from there; of each process the last."""
    made = notices(heard)
    made.heard(said(A, 1000), at_the_target(3.0))
    made.heard(said(A, 2000), at_the_target(3.0))
    made.heard(said(B, 9000), at_the_target(3.0))
    assert heard == []
    made.echoed(said(A, 3000))
    assert [until for _, until in heard] == [102.0]
    made.echoed(said(A, 4000))
    made.echoed(said(B, 12_500))
    assert [until for _, until in heard] == [102.0]


def test_where_the_leases_are_held_nothing_is_noticed(heard: list[tuple[Heartbeat, float]]) -> None:
    made = notices(heard, most=0.0)
    made.echoed(said(A))
    made.heard(said(A), at_the_target(3.0))
    assert heard == []
