"""Who is in the group: which of two processes of one id is the later one."""

from __future__ import annotations

import pytest

from replicator.group.membership import Heartbeat, Membership, MemberState, Side

TIMEOUT = 5.0


def _membership() -> Membership:
    made = Membership("me", timeout=TIMEOUT)
    made.echoed(Side.SOURCE, 0.0)
    return made


def _said(incarnation: str, sequence: int = 1) -> Heartbeat:
    return Heartbeat(worker="w", incarnation=incarnation, sequence=sequence)


def test_a_process_that_follows_in_its_place_is_the_later_one() -> None:
    membership = _membership()
    membership.heard(Side.SOURCE, _said("first", 9), 0.0, place="a")
    membership.heard(Side.SOURCE, _said("second"), 1.0, place="a")
    assert membership.others["w"].incarnation == "second"


def test_what_an_earlier_process_said_elsewhere_comes_late() -> None:
    """It neither replaces the later one nor keeps it alive."""
    membership = _membership()
    membership.heard(Side.SOURCE, _said("first", 9), 0.0, place="a")
    membership.heard(Side.SOURCE, _said("second"), 1.0, place="a")
    for sequence in (9, 10):
        membership.heard(Side.SOURCE, _said("first", sequence), 1.0 + TIMEOUT, place="b")
    assert membership.others["w"].incarnation == "second"
    membership.echoed(Side.SOURCE, 1.1 + TIMEOUT)
    assert membership.expire() == ["w"]


def test_a_process_at_other_places_is_taken_when_the_earlier_one_is_gone() -> None:
    """Its brokers are others, say."""
    membership = _membership()
    membership.heard(Side.SOURCE, _said("first"), 0.0, place="a")
    membership.heard(Side.SOURCE, _said("second"), 1.0, place="b")
    assert membership.others["w"].incarnation == "first"
    membership.echoed(Side.SOURCE, TIMEOUT + 0.1)
    membership.expire()
    membership.heard(Side.SOURCE, _said("second", 2), TIMEOUT + 0.1, place="b")
    assert membership.others["w"].incarnation == "second"


def test_who_has_left_is_not_heard_any_more() -> None:
    membership = _membership()
    membership.heard(Side.SOURCE, _said("first"), 0.0, place="a")
    left = Heartbeat(worker="w", incarnation="first", sequence=2, stage=MemberState.LEFT)
    membership.heard(Side.SOURCE, left, 1.0, place="a")
    membership.heard(Side.SOURCE, _said("first"), 1.0, place="b")
    assert not membership.others


def test_who_is_known_to_hold_its_lease_stays_though_nobody_hears_it() -> None:
    """No broker of the log reaches both of us: it goes on sending, so its tasks are not to be taken."""
    membership = _membership()
    membership.heard(Side.SOURCE, _said("first"), 0.0, place="a")
    membership.heard(Side.SINK, _said("first"), 0.0, place="b")
    later = TIMEOUT + 1.0
    membership.holds_lease(_said("first", 9), later, later + 3.0)
    membership.echoed(Side.SOURCE, later)
    assert membership.expire() == []
    assert membership.unheard == {"w"}
    assert membership.takes_tasks() == {"w"}
    assert membership.has_before("x")
    assert membership.others["w"].sequence == 9
    membership.echoed(Side.SOURCE, later + 3.1)
    assert membership.takes_tasks() == set()
    assert membership.expire() == ["w"]


def test_who_was_never_heard_is_there_while_it_holds_its_lease() -> None:
    membership = _membership()
    membership.holds_lease(_said("first"), 0.0, 3.0)
    assert set(membership.others) == {"w"}
    assert membership.last_heard() == {}
    membership.heard(Side.SOURCE, _said("first", 2), 1.0, place="a")
    assert membership.unheard == set()
    membership.echoed(Side.SOURCE, 4.0)
    assert membership.expire() == []


def test_a_lease_of_an_earlier_process_keeps_nobody() -> None:
    """Nor of one that has left, nor of ourselves."""
    membership = _membership()
    membership.heard(Side.SOURCE, _said("second"), 0.0, place="a")
    membership.holds_lease(_said("first"), 0.0, 100.0)
    membership.echoed(Side.SOURCE, TIMEOUT + 1.0)
    assert membership.expire() == ["w"]
    left = Heartbeat(worker="w", incarnation="third", sequence=2, stage=MemberState.LEFT)
    membership.heard(Side.SOURCE, left, 6.0, place="a")
    membership.holds_lease(_said("third"), 0.0, 100.0)
    membership.holds_lease(Heartbeat(worker="me", incarnation="i", sequence=1), 0.0, 100.0)
    assert not membership.others


def test_who_does_not_reach_the_target_is_given_nothing_whatever_its_lease() -> None:
    """It is heard where leases are held, and says so there."""
    membership = _membership()
    membership.heard(Side.SOURCE, _said("first"), TIMEOUT, place="a")
    membership.echoed(Side.SOURCE, TIMEOUT + 1.0)
    membership.echoed(Side.SINK, TIMEOUT + 1.0)
    membership.holds_lease(_said("first"), TIMEOUT, 100.0)
    assert membership.takes_tasks() == set()


@pytest.mark.parametrize(
    ("since", "until", "gone"),
    [
        (-100.0, 2.0, False),
        (-100.0, 2.0 + TIMEOUT, False),
        (-100.0, 2.1 + TIMEOUT, True),
        (50.0, 50.0 + TIMEOUT, False),
        (50.0, 50.1 + TIMEOUT, True),
    ],
)
def test_who_has_heard_nothing_at_the_target_does_not_know(since: float, until: float, *, gone: bool) -> None:
    """Another that reaches the target may hold its lease; it gets time to say so when the target is back."""
    membership = _membership()
    membership.listened = lambda: (since, until)
    membership.heard(Side.SOURCE, _said("first"), 0.0, place="a")
    membership.holds_lease(_said("first"), 2.0, 5.0)
    membership.echoed(Side.SOURCE, 100.0)
    assert membership.expire() == (["w"] if gone else [])


def test_who_has_left_at_the_target_holds_nothing() -> None:
    membership = _membership()
    membership.holds_lease(_said("first"), 0.0, 100.0)
    left = Heartbeat(worker="w", incarnation="first", sequence=2, stage=MemberState.LEFT)
    membership.holds_lease(left, 0.0, 100.0)
    membership.holds_lease(_said("first", 3), 0.0, 100.0)
    assert not membership.others


def test_a_later_process_takes_the_place_of_one_that_was_not_heard_itself() -> None:
    membership = _membership()
    membership.holds_lease(_said("first"), 0.0, 100.0)
    membership.heard(Side.SOURCE, _said("second"), 1.0, place="a")
    assert membership.others["w"].incarnation == "second"


def test_who_was_started_in_place_of_another_holds_its_lease() -> None:
    """Nobody hears it where leases are held, where its predecessor is known still."""
    membership = _membership()
    membership.heard(Side.SOURCE, _said("first"), 0.0, place="a")
    membership.holds_lease(_said("second"), 4.0, 7.5)
    membership.echoed(Side.SOURCE, TIMEOUT + 1.0)
    assert membership.expire() == []
    membership.echoed(Side.SOURCE, 8.0)
    assert membership.expire() == ["w"]
