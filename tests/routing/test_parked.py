"""What waiting messages say of themselves: when they are due, and which delivered message is the same one."""

from __future__ import annotations

import msgspec
import pytest

from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.body_compression import BodyCompression
from replicator.routing.faults import TransformRefused
from replicator.routing.parked import (
    Parked,
    Place,
    ReleasedMessages,
    as_new,
    as_released,
    due_of,
    fingerprint,
    is_recall,
    parked_topics,
    parse_delays,
    read_parked,
    recalled,
    released,
    renewed_waiting,
    transformed,
    with_due,
)
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue
from replicator.routing.single_send import HELD_BACK, without_delay


def message(raw: dict[str, str], *, body: bytes = b"body", stored: int = 1_000, tried: int = 0) -> StoredMessage:
    framed = len(body).to_bytes(4) + body
    return StoredMessage(7, 0, 0, 500, stored, tried, 0, framed, properties.encode(raw))


WAITING = {"UNIQ_KEY": "AB", "DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "5", "colour": "red"}


def test_delays() -> None:
    """Levels are of seconds, minutes, hours and days."""
    assert parse_delays("1s 5s 1m 2h 1d") == [1_000, 5_000, 60_000, 7_200_000, 86_400_000]


def test_due() -> None:
    """A level counts from when the source stored the message; a timer message says it; else nobody knows."""
    assert due_of(message({}, stored=1_000), 2, [1_000, 5_000]) == 6_000
    assert due_of(message({}, stored=1_000), 3, [1_000, 5_000]) is None
    assert due_of(message({"TIMER_OUT_MS": "77000"}), None, [1_000]) == 77_000
    assert due_of(message({"TIMER_OUT_MS": "soon"}), None, [1_000]) is None
    assert due_of(message({}), None, [1_000]) is None


def test_a_retry_of_a_timer_message_is_due_by_its_level() -> None:
    """It still has the time of the message that the group failed on."""
    assert due_of(message({"TIMER_OUT_MS": "77"}, stored=1_000), 2, [1_000, 5_000]) == 6_000


def test_a_delivered_message_has_the_fingerprint_of_the_waiting_one() -> None:
    """Whatever brokers and the copy change; not so one of another body, property, key, delay or attempt."""
    waiting = message(WAITING)
    delivered = {"colour": "red", "__RPL_SOURCE": "east/a/0/1/2", "__RPL_ORIGIN": "east", "UNIQ_KEY": "AB"}
    delivered |= {"DELAY": "3", "TIMER_ENQUEUE_MS": "1", "CLUSTER": "east", "MSG_REGION": "DefaultRegion"}
    assert fingerprint(message(delivered, stored=9_000)) == fingerprint(waiting)
    for other in ({"colour": "blue"}, {"UNIQ_KEY": "AC"}, {"DELAY": "4"}, {"size": "1"}):
        assert fingerprint(message(WAITING | other)) != fingerprint(waiting)
    assert fingerprint(message(WAITING, body=b"other")) != fingerprint(waiting)
    assert fingerprint(message(WAITING, tried=1)) != fingerprint(waiting)


def test_compressed_on_its_way_it_is_the_same_message() -> None:
    """What is parked and what is copied is compressed by the route; what the source delivers is not."""
    waiting = message(WAITING, body=b"body " * 100)
    packed = BodyCompression("zlib", 1)(waiting)
    assert packed.body_length < 100
    assert fingerprint(packed) == fingerprint(waiting)


def test_what_never_waited_has_no_fingerprint() -> None:
    """Or it would pass for a delivered one that is alike."""
    assert fingerprint(message({"UNIQ_KEY": "AB"})) is None


def test_retries_are_copied_without_their_delay() -> None:
    """So it does not count for them."""
    copied = {name: value for name, value in WAITING.items() if name != "DELAY"}
    assert fingerprint(message(copied), retry=True) == fingerprint(message(WAITING), retry=True)
    for name in HELD_BACK:
        waiting = message(WAITING | {name.decode(): "true"})
        sent = msgspec.structs.replace(waiting, properties=without_delay(waiting.properties))
        assert fingerprint(sent, retry=True) == fingerprint(waiting, retry=True), name


def test_parked() -> None:
    """A parked message names its source, its destination and when it is due."""
    due = with_due(message(WAITING), 8_000)
    stamped = Stamp("east", "east-a", 2).put([due])[0]
    place = Place("parked", Queue("west-a", 2), 7)
    found = read_parked(StoredMessage(7, 0, 0, 500, 2_000, 0, 0, due.body, stamped), "delay", place)
    assert found is not None
    assert (found.id, found.topic, found.queue) == ("east/delay/east-a/2/7/1000", "orders", Queue("east-a", 5))
    assert (found.due, found.unique, found.rolled, found.parked_at) == (8_000, b"AB", 0, 2_000)
    assert found.fingerprint == fingerprint(message(WAITING))
    assert found.place == place


@pytest.mark.parametrize("lacking", ["REAL_TOPIC", "REAL_QID", "__RPL_DUE", "__RPL_SOURCE", "DELAY"])
def test_what_is_no_parked_message(lacking: str) -> None:
    """Anyone may write a topic."""
    raw = WAITING | {"__RPL_DUE": "8000", "__RPL_SOURCE": "east/a/0/1/2", "__RPL_ORIGIN": "east"}
    place = Place("parked", Queue("west-a", 2), 7)
    assert read_parked(message(raw), "delay", place) is not None
    del raw[lacking]
    assert read_parked(message(raw), "delay", place) is None


def test_recalls() -> None:
    """They name the message that they take back, and are none themselves."""
    raw = properties.encode({"TIMER_DEL_UNIQKEY": "orders+AB", "UNIQ_KEY": "its own"})
    assert is_recall(raw)
    assert recalled(raw) == b"orders+AB"
    assert recalled(properties.encode({"TIMER_DEL_UNIQKEY": "AB"})) == b"AB"
    assert recalled(properties.encode(WAITING)) is None


def test_topics_of_connectors() -> None:
    """Each has its own; names that brokers would refuse are changed, and stay different."""
    plain = parked_topics("east-west", "route")
    assert plain["SCHEDULE_TOPIC_XXXX"] == "replicator_sys_pending_delay_east-west_route"
    odd = [parked_topics(group, "r" * 200)["rmq_sys_wheel_timer"] for group in ("east@1:2", "east@1-2")]
    assert len(set(odd)) == 2
    assert all(len(name) <= 127 and "@" not in name and ":" not in name for name in odd)


def a_parked(waiting: StoredMessage) -> Parked:
    """What is parked of `waiting`, whose due time is 8000."""
    stamped = Stamp("east", "east-a", 2).put([with_due(waiting, 8_000)])[0]
    stored = StoredMessage(7, 0, 0, 500, 2_000, waiting.reconsume_times, 0, waiting.body, stamped)
    found = read_parked(stored, "delay", Place("parked", Queue("west-a", 2), 7))
    assert found is not None
    return found


def test_released_messages_are_told_from_others() -> None:
    """By UNIQ_KEY, in their topic: what has none may be another message that is alike."""
    keyless = {name: value for name, value in WAITING.items() if name != "UNIQ_KEY"}
    known = ReleasedMessages()
    others = [message(WAITING | {"UNIQ_KEY": "AC"}), message(keyless), message({"UNIQ_KEY": "AB"})]
    delivered = [message(WAITING), *others]
    assert known.others("orders", delivered) is delivered
    for raw in (WAITING, keyless):
        known.add(a_parked(message(raw)))
    assert known.others("orders", delivered) == others
    assert known.others("payments", delivered) == delivered


def masked(original: StoredMessage) -> StoredMessage | None:
    """A transform: without the body, of another colour; blue ones are left out, green ones refused."""
    colour = properties.find(original.properties, b"colour")
    if colour == b"green":
        raise TransformRefused("it is green")
    if colour == b"blue":
        return None
    raw = properties.without(original.properties, [b"colour"]) + b"colour\x01none\x02"
    return msgspec.structs.replace(original.with_content(b"masked", sys_flag=0), properties=raw)


@pytest.mark.parametrize("retry", [False, True], ids=["once", "retry"])
def test_a_transformed_message_is_the_same_parked_and_copied(retry: bool) -> None:
    """At the target a delivered copy stands for it, and what the source delivers later is known for released."""
    topic = "%RETRY%g" if retry else "orders"
    waiting = message(WAITING | {"REAL_TOPIC": topic})
    delivered = message(WAITING | {"REAL_TOPIC": topic, "TIMER_DEQUEUE_MS": "1", "CLUSTER": "east"}, stored=9_000)
    kept = transformed(waiting, masked)
    assert kept is not None
    assert (kept.queue_offset, kept.store_timestamp) == (waiting.queue_offset, waiting.store_timestamp)
    parked, copy = a_parked(kept), masked(delivered)
    assert copy is not None
    assert parked.fingerprint == fingerprint(copy, retry=retry)
    assert parked.fingerprint != fingerprint(waiting, retry=retry)
    known = ReleasedMessages()
    known.add(parked)
    assert known.others(topic, [delivered], masked) == []
    assert known.others(topic, [delivered]) == [delivered]


def test_what_is_left_out_or_refused_was_not_released() -> None:
    """Nor what has never waited, which no transform is asked about."""
    known = ReleasedMessages()
    known.add(a_parked(message(WAITING)))
    others = [message(WAITING | {"colour": colour}) for colour in ("blue", "green")]
    never = message({"UNIQ_KEY": "AB", "colour": "green"})
    assert transformed(others[0], masked) is None
    assert known.others("orders", [*others, never], masked) == [*others, never]


def test_properties_of_released_messages() -> None:
    """The application's, where it was born, and which one it is; nothing by which a single send is delayed."""
    theirs = {"__RPL_SOURCE": "east/a/0/1/2", "__RPL_DUE": "8000", "__RPL_RELEASED": "where it came from"}
    theirs |= {"__RPL_RETAGGED": "1"}
    raw = properties.encode(WAITING | theirs | {"__RPL_ORIGIN": "east"})
    own = {"UNIQ_KEY": "AB", "colour": "red", "__RPL_ORIGIN": "east", "__RPL_RELEASED": "the id"}
    delays = {name: WAITING[name] for name in ("DELAY", "REAL_TOPIC", "REAL_QID")}
    assert properties.decode(as_released(raw, "the id")) == own | delays
    assert properties.decode(as_new(raw, "the id")) == own
    assert as_new(raw, "the id").endswith(b"\x02")
    sealed = as_new(raw + b"__RPL_SEAL\x01theirs\x02", "the id", seal=b"__RPL_SEAL\x01ours\x02")
    assert properties.decode(sealed) == own | {"__RPL_SEAL": "ours"}
    assert sealed.count(b"__RPL_SEAL") == 1
    assert {released(sent) for sent in (as_released(raw, "the id"), as_new(raw, "the id"))} == {"the id"}


def test_of_waiting_retries_only_copies_are_copies() -> None:
    """What a broker makes of a copy that its group fails on is born there, as it is once it is in its topic."""
    own = {"UNIQ_KEY": "AB", "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0", "DELAY": "3"}
    copy = {"__RPL_ORIGIN": "east", "__RPL_SOURCE": "east/a/0/1/2", "__RPL_RETRIES": "1"}
    made, sent, other = message(own | copy, tried=2), message(own | copy, tried=1), message(WAITING | copy, tried=2)
    first, *others = renewed_waiting([made, sent, other])
    assert properties.decode(first.properties) == own
    assert others == [sent, other]
