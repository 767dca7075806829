"""System topics are created where they are missing, and keep what an administrator has given them elsewhere."""

from __future__ import annotations

from typing import Any, cast

import pytest

from replicator.client.topics import READABLE, TopicConfig, TopicTable
from replicator.client.vip import vip_address
from replicator.errors import BrokerRefused, Unreachable
from replicator.group import log_topics
from replicator.group.log_topics import LogTopics
from tests.group.log_brokers import LogBroker, LogCluster

NAMES = ("closed", "missing", "whole")
#: With more queues than any log needs, and one that nobody may write.
KNOWN = {
    "whole": TopicConfig(name="whole", read_queues=8, write_queues=8),
    "closed": TopicConfig(name="closed", read_queues=1, write_queues=1, perm=READABLE),
}


class Scene:
    """One broker; `created` are the topics that were written there, `denied` says what the account may not do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.created: list[str] = []
        self.denied: dict[tuple[str, str], str] = {}
        self.cluster = LogCluster(a=LogBroker())
        self.topics = LogTopics(cast("Any", self.cluster), NAMES)

        async def write_topic(_broker: object, topic: TopicConfig) -> None:
            self.created.append(topic.name)

        async def denies_sending(_broker: object, topic: str) -> str:
            return self.denied.get(("send", topic), "")

        async def denies_reading(_broker: object, topic: str) -> str:
            return self.denied.get(("read", topic), "")

        async def read_topics(_broker: object) -> TopicTable:
            return TopicTable(KNOWN, ())

        for fake in (write_topic, denies_sending, denies_reading, read_topics):
            monkeypatch.setattr(log_topics, fake.__name__, fake)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.mark.parametrize("account", ["", "who-copies"])
@pytest.mark.parametrize("known", [KNOWN, None], ids=["known", "asked"])
async def test_what_serves_is_not_written(scene: Scene, account: str, known: dict[str, TopicConfig] | None) -> None:
    """Whoever asks, and whether the broker's topics are known or not."""
    scene.cluster.account = account
    assert await scene.topics.provide("a", known) is None
    assert scene.created == ["closed", "missing"]


@pytest.mark.parametrize("right", ["send", "read"])
async def test_a_missing_right_is_said_at_once(scene: Scene, right: str) -> None:
    """Though the topic is there: heartbeats would be refused, and the worker would wait for them."""
    scene.cluster.account = "who-copies"
    scene.denied[right, "whole"] = "who-copies has no permission"
    refused = await scene.topics.provide("a", KNOWN)
    assert isinstance(refused, BrokerRefused)
    assert "who-copies has no permission" in str(refused)


async def test_without_an_account_nobody_is_refused(scene: Scene) -> None:
    scene.denied["send", "whole"] = "nobody asks"
    assert await scene.topics.provide("a", KNOWN) is None


async def test_a_broker_without_a_master_has_no_log(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def writer(name: str) -> LogBroker:
        raise Unreachable(name, "it has no master")

    monkeypatch.setattr(scene.cluster, "writer", writer)
    assert isinstance(await scene.topics.provide("a", KNOWN), Unreachable)
    assert scene.created == []


async def test_a_broker_whose_address_is_none_has_no_log(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with an empty `brokerIP1`; a start goes on with the others."""
    monkeypatch.setattr(scene.cluster, "writer", lambda _: vip_address(":10911"))
    assert isinstance(await scene.topics.provide("a", KNOWN), Unreachable)
