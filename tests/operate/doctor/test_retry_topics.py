"""What is said of rights to retry topics; `tests/e2e/test_least_rights.py` asks real brokers."""

from __future__ import annotations

from replicator.connector.sync.retry_rights import Denial
from replicator.operate.doctor.finding import Level
from replicator.operate.doctor.retry_topics import judge_denials

NO = Denial("the target's account w may not create %RETRY%a_t (no)", "type this")


def test_the_first_is_named_and_the_others_are_counted() -> None:
    groups = [("a", "t"), ("a", "u"), ("b", "t"), ("c", "t")]
    (found,) = judge_denials("target account w", groups, [NO, NO, None, NO])
    assert (found.level, found.advice) == (Level.WARNING, "type this")
    assert found.message.endswith("%RETRY%a_t (no), and so for 1 more group")


def test_who_may_is_said_once() -> None:
    (found,) = judge_denials("target account w", [("a", "t")], [None])
    assert found.level == Level.OK
    assert not [*judge_denials("target account w", [], [])]
