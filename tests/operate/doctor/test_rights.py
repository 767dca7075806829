"""One line for each right."""

from __future__ import annotations

from replicator.client.system_topics import SCHEDULE_TOPIC
from replicator.connector.permissions import Right
from replicator.operate.doctor.finding import Level
from replicator.operate.doctor.rights import judge_rights

ACCOUNTS = {"source": "reader", "target": "writer"}


def test_each_right_has_its_line() -> None:
    answers = {
        Right.READ: [("a", ""), ("b", "")],
        Right.CREATE: [("a", "no CREATE")],
        Right.SEND: [("a", "")],
        Right.READ_BACK: [],
    }
    found = [(each.level, each.subject, each.message) for each in judge_rights(ACCOUNTS, answers)]
    assert found == [
        (Level.OK, "source account reader", "it may read all 2 topics that were asked about"),
        (Level.ERROR, "target account writer", "it may not create topic a (no CREATE)"),
        (Level.OK, "target account writer", "it may send to topic a"),
    ]


def test_each_kind_of_topic_has_its_way_out() -> None:
    answers = {Right.READ: [("a", "no GET"), (SCHEDULE_TOPIC, "no GET")]}
    orders, waiting = judge_rights(ACCOUNTS, answers)
    assert "--exclude-topics" in orders.advice
    assert "leave pending out of --sync" in waiting.advice


def test_many_topics_are_counted() -> None:
    answers = {Right.SEND: [(f"t{i}", "no PUB") for i in range(25)]}
    messages = [each.message for each in judge_rights(ACCOUNTS, answers)]
    assert len(messages) == 11
    assert messages[-1] == "nor send to 15 more topics"
