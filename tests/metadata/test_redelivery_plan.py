"""What of the messages that POP consumers hold goes into a retry topic, and what is there already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replicator.client.groups import GroupTable
from replicator.client.topics import TopicConfig
from replicator.metadata import redelivery_plan as module
from replicator.metadata.offsets import GroupQueue
from replicator.metadata.pop_checkpoints import Held
from replicator.metadata.redelivery_plan import (
    HeldCopy,
    InRetryTopic,
    has_read_on,
    held_copies,
    obstacle,
    obstacle_at,
    obstacle_of,
    retried_properties,
    retry_topic_of,
    unsuitable,
)
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from tests.metadata.test_offsets import place

RETRY_TOPIC = "%RETRY%G_T"
#: As brokers of 5.x say them, in part.
SETTINGS = {"reviveQueueNum": "8", "timerWheelEnable": "true"}


def holding(*offsets: int, delivered: int = 10, target: int | None = None, **more: Any) -> GroupQueue:
    """A group in a queue of 10 copied messages that holds some."""
    copies = more.pop("copies", {i: 100 + i for i in range(10)})
    held = tuple(Held(offset, 5000) for offset in offsets)
    at = place(copies, min(offsets, default=0), target, **more)
    return replace(at, in_flight=len(offsets) or 1, held=held, delivered=delivered)


def past(at: GroupQueue) -> GroupQueue:
    assert at.delivered is not None
    return replace(at, source=at.delivered)


def message(raw: dict[str, str] | None = None, *, times: int = 0, body: bytes = b"body") -> StoredMessage:
    properties_ = properties.encode({"UNIQ_KEY": "AB", **(raw or {})})
    return StoredMessage(0, 0, 0, 500, 1_000, times, 0, len(body).to_bytes(4) + body, properties_)


def table(modes: dict[str, Any] | None = None, **config: Any) -> GroupTable:
    return GroupTable({"G": config}, {}, (), modes={} if modes is None else modes)


def test_the_retry_topic_has_the_name_that_every_broker_of_5_x_reads() -> None:
    at = holding(3)
    assert retry_topic_of(at) == RETRY_TOPIC
    of_retries = replace(at.queue, target_topic=RETRY_TOPIC)
    assert retry_topic_of(replace(at, queue=of_retries)) == RETRY_TOPIC


def test_a_broker_that_can_and_one_of_4_9() -> None:
    assert obstacle_at(SETTINGS, table(), "G", "T", RETRY_TOPIC) == ""
    assert "POP" in obstacle_at({"timerWheelEnable": "true"}, table(), "G", "T", RETRY_TOPIC)
    assert "POP" in obstacle_at(SETTINGS, GroupTable({}, {}, ()), "G", "T", RETRY_TOPIC)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"timerWheelEnable": "false"}, "timerWheelEnable"),
        ({"retrieveMessageFromPopRetryTopicV1": "false"}, ""),
        ({"enableRetryTopicV2": "true"}, ""),
        ({"enableRetryTopicV2": "true", "retrieveMessageFromPopRetryTopicV1": "false"}, "does not read"),
        ({"popConsumerKVServiceEnable": "true", "retrieveMessageFromPopRetryTopicV1": "false"}, "does not read"),
    ],
)
def test_which_retry_topics_a_broker_reads(more: dict[str, str], why: str) -> None:
    found = obstacle_at(SETTINGS | more, table(), "G", "T", RETRY_TOPIC)
    assert bool(found) == bool(why)
    assert why in found


def test_groups_that_would_not_read_it() -> None:
    assert "in order" in obstacle_at(SETTINGS, table(consumeMessageOrderly=True), "G", "T", RETRY_TOPIC)
    assert "PULL" in obstacle_at(SETTINGS, table({"G": {"T": {"mode": "PULL"}}}), "G", "T", RETRY_TOPIC)
    assert obstacle_at(SETTINGS, table({"G": {"T": {"mode": "POP"}}}), "G", "T", RETRY_TOPIC) == ""
    assert "does not have" in obstacle_at(SETTINGS, table(), "other", "T", RETRY_TOPIC)
    assert "too long" in obstacle_at(SETTINGS, table(), "G", "T", f"{RETRY_TOPIC}{'x' * 120}")


@pytest.mark.parametrize(("kind", "why"), [("NORMAL", ""), ("PRIORITY", "priorities")])
def test_topics_of_which_nothing_can_be_put_there(kind: str, why: str) -> None:
    found = obstacle_of(TopicConfig(name="T", read_queues=1, write_queues=1, attributes={"message.type": kind}))
    assert bool(found) == bool(why)
    assert why in found


def test_a_group_that_can_go_on_behind_what_it_was_delivered() -> None:
    at = holding(3, 5)
    assert obstacle(at, past(at)) == ""
    assert held_copies(at) == [HeldCopy(3, 103, 5000), HeldCopy(5, 105, 5000)]


def test_what_it_holds_is_not_all_known() -> None:
    at = replace(holding(), delivered=None)
    assert "known" in obstacle(at, at)


def test_it_holds_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    at = holding(3, 5, 7)
    assert "more than 2" in obstacle(at, past(at))


@pytest.mark.parametrize("target", [None, 0, 1])
def test_messages_of_others_lie_between(target: int | None) -> None:
    """The group cannot be moved past them: it would get again what lies behind."""
    at = holding(1, copies={0: 0, 1: 1, 2: 3, 3: 4}, delivered=4, target=target)
    assert "foreign message at offset 2" in obstacle(at, past(at))


def test_the_queue_at_the_target_is_another_one() -> None:
    at = holding(3, target=900, ends=110)
    assert "behind the end" in obstacle(at, past(at))


def test_what_is_not_copied_is_in_no_retry_topic() -> None:
    """What a filter leaves out, and what is not copied yet; where the map does not reach back nobody knows."""
    at = holding(2, 3, 12, copies={0: 0, 1: 1, 3: 2}, position=5, delivered=13)
    assert held_copies(at) == [HeldCopy(3, 2, 5000)]
    before = holding(2, 9, copies={8: 0, 9: 1})
    assert held_copies(before) is None
    assert "reach back" in obstacle(before, past(before))


@pytest.mark.parametrize(("target", "reads"), [(None, False), (100, False), (103, False), (104, True), (110, True)])
def test_whether_a_group_has_read_on(target: int | None, *, reads: bool) -> None:
    assert has_read_on(holding(3, target=target)) == reads


def test_what_a_failover_has_put_is_not_put_again() -> None:
    """Unless it was delivered once more since, later than clocks can differ."""
    there = InRetryTopic(put={"east/pop/1": 100_000})
    assert there.has("east/pop/1", message(), 100_000)
    assert there.has("east/pop/1", message(), 150_000)
    assert not there.has("east/pop/1", message(), 170_000)
    assert not there.has("east/pop/2", message(), 1)


def test_what_the_sources_broker_has_revived_and_was_copied_is_not_put() -> None:
    """The same delivery of it: not what was revived of an earlier one, nor with another count."""
    there = InRetryTopic(revived={(b"AB", 1): 9000, (b"", 1): 9000})
    assert there.has("", message(), 9000)
    assert not there.has("", message(), 9001)
    assert not there.has("", message(times=1), 1)
    assert not there.has("", message({"UNIQ_KEY": ""}), 1)


def test_it_has_the_properties_that_a_broker_gives_it() -> None:
    own = {
        "TAGS": "a",
        "KEYS": "k",
        "DELAY": "3",
        "__RPL_ORIGIN": "east",
        "__RPL_SOURCE": "east/a/0/7/1",
        "CLUSTER": "w",
    }
    raw = retried_properties(message(own), "east/pop/7", 5000)
    assert properties.decode(raw) == {
        "UNIQ_KEY": "AB",
        "TAGS": "a",
        "KEYS": "k",
        "1ST_POP_TIME": "5000",
        "__RPL_ORIGIN": "east",
        "__RPL_RELEASED": "east/pop/7",
        "__RPL_RETRIES": "1",
    }
    stored = replace_raw(message(times=1), raw)
    assert provenance.of(stored, RETRY_TOPIC) is None  # nor does it pass for one that was copied


@pytest.mark.parametrize(("times", "first"), [(0, "5000"), (3, "7")])
def test_when_it_was_first_delivered_stays(times: int, first: str) -> None:
    """From the first attempt on; what was sent with such a property was not delivered by POP before."""
    raw = retried_properties(message({"1ST_POP_TIME": "7"}, times=times), "n", 5000)
    assert properties.decode(raw)["1ST_POP_TIME"] == first
    assert properties.decode(raw)["__RPL_RETRIES"] == str(times + 1)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (message({"DELAY": "3", "TAGS": "a"}), ""),
        (message(body=b""), "no body"),
        (message({"_SYS_MSG_PRIORITY_": "2"}), "another queue"),
        (message({"INNER_MULTI_DISPATCH": "%LMQ%a"}), "light message queues"),
    ],
)
def test_what_cannot_be_put_there(given: StoredMessage, why: str) -> None:
    assert bool(unsuitable(given)) == bool(why)
    assert why in unsuitable(given)


def replace_raw(given: StoredMessage, raw: bytes) -> StoredMessage:
    return StoredMessage(0, 0, 0, 500, 1_000, given.reconsume_times, 0, given.body, raw)
