"""Which topics are not a user's."""

from __future__ import annotations

import pytest

from replicator.client.system_topics import is_system


@pytest.mark.parametrize(
    "topic",
    ["TBW102", "rmq_sys_wheel_timer", "%RETRY%g", "%DLQ%g", "replicator_sys_control", "east", "east_REPLY_TOPIC"],
)
def test_topics_of_the_system(topic: str) -> None:
    assert is_system(topic, ["east", "east-a"])


@pytest.mark.parametrize("topic", ["orders", "east-b", "orders_REPLY_TOPIC", "sys_replicator"])
def test_topics_of_users(topic: str) -> None:
    assert not is_system(topic, ["east", "east-a"])
