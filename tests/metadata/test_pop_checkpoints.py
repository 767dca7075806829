"""What POP consumers hold, from the records of their broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replicator.metadata.pop_checkpoints import Consumption, Held, InFlight, PopCheckpoints
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import encode

PLACE = Consumption("G", "T", "a", 3)


def record(tag: str, body: Any, *, stored: int = 0, topic: str = "rmq_sys_REVIVE_LOG_east") -> StoredMessage:
    """As a broker stores one in its timer."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return StoredMessage(
        queue_offset=0,
        flag=0,
        sys_flag=0,
        born_timestamp=0,
        store_timestamp=stored,
        reconsume_times=0,
        body_crc=0,
        body=len(raw).to_bytes(4) + raw,
        properties=encode({"REAL_TOPIC": topic, "TAGS": tag}),
    )


def checkpoint(start: int = 100, offsets: tuple[int, ...] = (0, 1, 4), **more: Any) -> dict[str, Any]:
    """Of a delivery of the group G in queue 3 of T, as 5.3.3 writes it."""
    common = {"bm": 0, "bn": "a", "c": "G", "it": 60000, "pt": 5000, "q": 3, "ro": 0, "t": "T"}
    return common | {"d": list(offsets), "n": len(offsets), "so": start} | more


def ack(offset: int, start: int = 100, **more: Any) -> dict[str, Any]:
    return {"ao": offset, "bn": "a", "c": "G", "pt": 5000, "q": 3, "so": start, "t": "T"} | more


def holding(*offsets: int, popped: int = 5000) -> InFlight:
    return InFlight(tuple(Held(offset, popped) for offset in offsets))


def read(*records: StoredMessage) -> PopCheckpoints:
    log = PopCheckpoints("a")
    for each in records:
        log.read(each)
    return log


def test_what_is_not_acknowledged_is_held() -> None:
    log = read(record("ck", checkpoint()), record("ack", ack(100)))
    assert log.in_flight() == {PLACE: holding(101, 104)}
    log.read(record("bAck", ack(-1, aol=[101, 104])))
    assert (log.in_flight(), len(log)) == ({}, 0)


def test_another_delivery_of_the_same_message_holds_it_too() -> None:
    """A consumer asks for more time: the new checkpoint comes before the acknowledgement of the old one."""
    log = read(record("ck", checkpoint()), record("ck", checkpoint(101, (0,), pt=6000)))
    assert log.in_flight() == {PLACE: InFlight((Held(100, 5000), Held(101, 6000), Held(104, 5000)))}
    for offset in (100, 101, 104):
        log.read(record("ack", ack(offset)))
    assert log.in_flight() == {PLACE: holding(101, popped=6000)}
    log.revived([record("ck", checkpoint(101, (0,), pt=6000))])
    assert log.in_flight() == {}


@pytest.mark.parametrize("more", [{"d": [], "n": 3, "bm": 0b101}, {"d": [0, 1, 2], "bm": 0b101}])
def test_what_was_acknowledged_before_it_was_written(more: dict[str, Any]) -> None:
    """And without distances, as older brokers write them, offsets follow one another."""
    assert read(record("ck", checkpoint(**more))).in_flight() == {PLACE: holding(101)}


def test_a_record_belongs_to_the_broker_that_it_names() -> None:
    log = read(record("ck", checkpoint(bn="b")), record("ck", checkpoint(bn="")))
    assert set(log.in_flight()) == {PLACE, PLACE._replace(broker="b")}


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\xff\xfe", b"[]", b"5", b'{"t": 1}', b'{"t": "T"}'),
        *(checkpoint(so="x"), checkpoint(d=["a"]), checkpoint(q=None)),
    ],
)
def test_what_is_no_checkpoint_says_nothing(body: Any) -> None:
    log = read(record("ck", body), record("ack", ack(7)))
    log.revived([record("ck", body)])
    assert log.in_flight() == {}


def test_messages_of_users_say_nothing() -> None:
    assert read(record("ck", checkpoint(), topic="orders")).in_flight() == {}


def test_a_checkpoint_holds_no_more_than_a_delivery_can() -> None:
    """Whatever it says."""
    log = read(record("ck", checkpoint(0, tuple(range(1000)))), record("ck", checkpoint(9, (), n=10**9, pt=1)))
    assert [(each.first, each.messages) for each in log.in_flight().values()] == [(0, 41)]


def test_one_that_its_broker_has_lost_is_given_up_an_hour_after_it_was_due() -> None:
    """By the clock of the broker: the worker's may be another."""
    log = read(record("ck", checkpoint(), stored=5000))
    later = record("ck", checkpoint(200, pt=3_700_000), stored=3_665_000)
    log.read(later)
    assert log.in_flight()[PLACE].first == 100
    log.read(record("ack", ack(200, 200, pt=3_700_000), stored=3_665_001))
    assert log.in_flight()[PLACE] == holding(201, 204, popped=3_700_000)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicator.metadata.pop_checkpoints._MOST", 2)
    log = read(*(record("ck", checkpoint(start, (0,))) for start in range(3)))
    assert (log.in_flight(), log.overflowed) == ({PLACE: holding(1, 2)}, True)
