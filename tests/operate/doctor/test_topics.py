"""What is said of topics, by what both clusters have."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.client.topics import TopicConfig
from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.topics import judge_topics
from replicator.routing.options import Identity
from replicator.routing.plan import TopicPlan, chosen_names, plan_topics
from replicator.routing.queue_map import Queue
from replicator.routing.selector import TopicSelector
from replicator.settings import RouteSettings


def config(name: str, queues: int = 2, **more: Any) -> TopicConfig:
    return TopicConfig(name=name, read_queues=queues, write_queues=queues, **more)


def judged(
    source: list[TopicConfig], target: list[TopicConfig], *, typed: tuple[str, str] = ("a", "b"), **route: Any
) -> list[Finding]:
    """All findings that are not ok, of broker a and broker b."""
    settings = RouteSettings(**route)
    ours, theirs = {"a": {each.name: each for each in source}}, {"b": {each.name: each for each in target}}
    selector = TopicSelector.of(settings.topics, settings.exclude_topics)
    names = chosen_names(ours, selector, settings.rename, Identity("east", "west"), system=[])
    plans = plan_topics(ours, theirs, {}, names)
    found = judge_topics(plans, ours, theirs, settings, typed=typed, reserved={"west", "b"})
    return [each for each in found if each.level is not Level.OK]


FIFO = {"message.type": "FIFO"}


def test_topics_that_are_new_or_alike() -> None:
    assert judged([config("orders")], []) == []
    assert judged([config("orders", attributes=FIFO)], [config("orders", 4, attributes=FIFO)]) == []
    assert judged([config("orders")], [config("orders", attributes={"message.type": "NORMAL"})]) == []


def test_another_kind() -> None:
    """4.9 has no kinds: what a 5.x topic there is to be, its owner knows."""
    (found,) = judged([config("orders")], [config("orders", attributes=FIFO)])
    assert (found.level, found.subject) == (Level.WARNING, "orders")
    assert "message.type is FIFO, and NORMAL at the source" in found.message
    assert judged([config("orders")], [config("orders", attributes=FIFO)], typed=("", "b")) == []
    assert judged([config("orders", attributes=FIFO)], [config("orders")], typed=("a", "")) == []


@pytest.mark.parametrize("attributes", [{"queue.type": "BatchCQ"}, {"cleanup.policy": "COMPACTION"}])
def test_a_kind_whose_offsets_do_not_count(attributes: dict[str, str]) -> None:
    (found,) = judged([config("orders")], [config("orders", attributes=attributes)])
    assert (found.level, found.check) == (Level.ERROR, "target topic")
    (found, _) = judged([config("orders", attributes=attributes)], [])
    assert (found.level, found.check) == (Level.ERROR, "topics")


def test_fewer_queues() -> None:
    (found,) = judged([config("orders", 8)], [config("orders", 1)])
    assert (found.level, found.message.partition(":")[0]) == (
        Level.WARNING,
        "it has 1 queue at b, and the copy needs 8",
    )


def test_names() -> None:
    """One that was mistyped, one that the target has for itself, and none at all."""
    (found,) = judged([config("orders")], [], topics=["orders", "ordres"])
    assert found.subject == "ordres"
    (found,) = judged([config("west")], [])
    assert (found.level, found.subject) == (Level.ERROR, "west")
    assert judged([config("west")], [], rename="copy-{topic}") == []
    (found,) = judged([config("orders")], [], topics=["pay.*"])
    assert found.subject == "selection"


def test_topics_that_cannot_be_read() -> None:
    (found,) = judged([config("orders", perm=2)], [])
    assert (found.level, found.check) == (Level.WARNING, "source topic")
    (found,) = judged([config("orders")], [config("orders", perm=2)])
    assert (found.level, found.check) == (Level.ERROR, "target topic")


def test_one_topic_is_not_called_topics() -> None:
    found = judge_topics(
        [TopicPlan(topic="orders", target_topic="orders", queue_map={Queue("a", 0): Queue("b", 0)})],
        {},
        {},
        RouteSettings(),
        typed=("", ""),
        reserved=(),
    )
    assert [each.message for each in found] == ["1 topic with 1 queue; 0 to create or enlarge"]
