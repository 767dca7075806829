"""What is said of order configurations, and what they would have to be at the target."""

from __future__ import annotations

import pytest

from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.orders import judge_orders
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue

#: Two source brokers with four queues each, onto one target broker.
TOGETHER = {Queue(broker, i): Queue("x", i + 4 * (broker == "b")) for broker in "ab" for i in range(4)}
APART = {Queue(broker, i): Queue(other, i) for broker, other in ("ax", "by") for i in range(4)}


def judged(ours: str, theirs: str, queue_map: dict[Queue, Queue]) -> list[Finding]:
    plan = TopicPlan(topic="T", target_topic="copy-of-T", queue_map=queue_map)
    return [
        *judge_orders(
            [plan], {"T": ours} if ours else {}, {"copy-of-T": theirs} if theirs else {}, namesrv="n:1;n:2"
        )
    ]


@pytest.mark.parametrize(
    ("ours", "queue_map", "wanted"),
    [("a:4;b:4", APART, "x:4;y:4"), ("a:4;b:4", TOGETHER, "x:8"), ("a:2", APART, "x:2"), ("a:4;b:0", APART, "x:4")],
)
def test_one_that_the_target_does_not_have(ours: str, queue_map: dict[Queue, Queue], wanted: str) -> None:
    (found,) = judged(ours, "", queue_map)
    assert (found.level, found.subject) == (Level.WARNING, "T")
    assert f"have {ours!r}, and the target's have none" in found.message
    assert found.advice == f"mqadmin updateOrderConf -n 'n:1;n:2' -m put -t copy-of-T -v '{wanted}'"


def test_others_at_the_target() -> None:
    """The order of the brokers does not matter."""
    (found,) = judged("a:4;b:4", "y:4;x:4", APART)
    assert found.level is Level.OK
    (found,) = judged("a:4;b:4", "x:4", APART)
    assert "the target's have 'x:4'" in found.message
    assert judged("", "x:4", APART) == []


@pytest.mark.parametrize("ours", ["nonsense", "a:", ":4", "a:²", "gone:4"])
def test_one_that_says_nothing(ours: str) -> None:
    """There is no command that would be right."""
    (found,) = judged(ours, "", APART)
    assert (found.level, found.advice) == (Level.WARNING, "set it with `mqadmin updateOrderConf` there")
