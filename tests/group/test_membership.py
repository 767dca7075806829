"""Who is in the group: which of two processes of one id is the later one."""

from __future__ import annotations

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
