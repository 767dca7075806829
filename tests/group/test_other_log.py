"""Workers of the same group that hold their leases on another log are found, as long as they live."""

from __future__ import annotations

from typing import Literal

from replicator.group.control_log import LogMessage
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.other_log import STARTED, OtherLog
from replicator.routing.message_queue import MessageQueue

QUEUE = MessageQueue("online", "b", 0)


def at(seconds: float, queue: MessageQueue = QUEUE) -> LogMessage:
    return LogMessage(queue, b"", int(seconds * 1000))


def beat(coordination: str, stage: MemberState = MemberState.ONLINE) -> Heartbeat:
    info = {"coordination": coordination, "rest": "host:1"}
    return Heartbeat(worker="w1", incarnation="i", sequence=1, stage=stage, info=info)


def log(coordination: Literal["source", "target"] = "source") -> OtherLog:
    return OtherLog("g", "east", 5.0, coordination)


def test_one_that_was_silent_for_too_long_has_left() -> None:
    """By the broker's own clock."""
    found = log()
    assert found.heard(at(10), beat("target")) is None
    assert found.echoed(at(15.1)) is None
    found = log()
    assert found.heard(at(10), beat("target")) is None
    assert found.echoed(at(14.9)) is not None


def test_one_that_said_goodbye_has_left() -> None:
    found = log()
    found.heard(at(10), beat("target"))
    found.heard(at(11), beat("target", MemberState.LEFT))
    assert found.echoed(at(12)) is None


def test_one_that_comes_later_is_found() -> None:
    """And the error names it, and the way out."""
    found = log()
    assert found.echoed(at(1)) is None
    conflict = found.heard(at(2), beat("target"))
    assert conflict is not None
    assert "'w1' of group 'g' at host:1 coordinates at the target" in conflict.message
    assert "same coordination" in conflict.hint


def test_one_that_only_tries_to_start_is_no_conflict_to_those_who_have() -> None:
    """It finds them before its own heartbeat, and gives way."""
    trying = Heartbeat(worker="w1", incarnation="i", sequence=1, info={"coordination": "target", STARTED: False})
    found = log()
    found.echoed(at(1))
    assert found.heard(at(2), trying) is None
    starting = log()
    assert starting.heard(at(2), trying) is None
    assert starting.echoed(at(3)) is not None


def test_clocks_of_other_brokers_say_nothing() -> None:
    found = log()
    found.heard(at(10, MessageQueue("online", "other", 0)), beat("target"))
    assert found.echoed(at(12)) is None


def test_those_of_our_own_log_are_no_conflict() -> None:
    found = log("target")
    found.echoed(at(1))
    assert found.heard(at(2), beat("target")) is None
    assert found.heard(at(2), beat("source")) is not None


def test_those_of_our_own_log_do_not_hide_one_that_is() -> None:
    """Whoever is heard first."""
    other = Heartbeat(worker="w2", incarnation="other", sequence=1, info={"coordination": "source"})
    found = log("target")
    found.heard(at(1), beat("target"))
    found.heard(at(2), other)
    conflict = found.echoed(at(3))
    assert conflict is not None
    assert "'w2'" in conflict.message


def test_a_group_of_another_source_may_have_the_same_name() -> None:
    """As that of the way back has, where both are called after the project."""
    other = Heartbeat(worker="w1", incarnation="i", sequence=1, info={"coordination": "target", "source": "west"})
    found = log()
    found.echoed(at(1))
    assert found.heard(at(2), other) is None
