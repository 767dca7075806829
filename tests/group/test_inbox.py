"""What a worker believes, and what it counts: forged, replayed and stale messages, records that do not fit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from replicator.group import inbox as module
from replicator.group.control_log import LogMessage
from replicator.group.freshness import Echo
from replicator.group.inbox import Inbox
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.signature import Signer
from replicator.group.wire import Author, write_heartbeat, write_records
from replicator.routing.message_queue import MessageQueue
from replicator.state.record import Kind, Record, Version
from tests.support.records import VALUES

SECRET = Signer("s" * 32)
ONLINE, OTHER = MessageQueue("online", "a", 0), MessageQueue("online", "b", 0)
CONTROL = MessageQueue("control", "a", 0)
BEAT = Heartbeat(worker="w", incarnation="i", sequence=1, echo=Echo("a", 1_000_000))


def inbox(signer: Signer = SECRET) -> Inbox:
    return Inbox(("g", "g/jobs"), signer, patience=10.0)


def said(
    heartbeat: Heartbeat, *, queue: MessageQueue = ONLINE, signer: Signer = SECRET, stored: int = 1_001_000
) -> LogMessage:
    return LogMessage(queue, signer.sign(queue.topic, "g", write_heartbeat("g", heartbeat)), stored)


def test_a_replayed_message_counts_once_in_each_queue() -> None:
    """Copies on other brokers are its worker's own; a later one of the same process is news."""
    reader = inbox()
    assert reader.open(said(BEAT)) is not None
    assert reader.open(said(BEAT, queue=OTHER)) is not None
    assert reader.open(said(BEAT)) is None
    assert reader.open(said(BEAT, queue=OTHER)) is None
    assert reader.open(said(replace(BEAT, sequence=2))) is not None
    assert reader.open(said(replace(BEAT, incarnation="restarted"))) is not None
    assert reader.ignored == {"replayed": 2}


def test_old_heartbeats_do_not_keep_a_dead_worker_alive() -> None:
    """A recording of any length, played to a reader that has seen none of it; only a farewell stays true."""
    reader = inbox()
    tape = [replace(BEAT, sequence=n, echo=Echo("a", 1_000_000 + 1000 * n)) for n in range(1, 100)]
    late = 1_000_000 + 1000 * 99 + 10_001
    with capture_logs() as logs:
        assert all(reader.open(said(each, stored=late)) is None for each in tape)
        assert reader.open(said(tape[0], stored=late)) is None
    assert reader.ignored == {"stale": 99, "replayed": 1}
    told = [(entry["log_level"], entry["kind"], entry["reason"]) for entry in logs]
    late_or_again = "stored up to 108 s after it was written: it came late, or was written again"
    assert told == [
        ("warning", "stale", f"a heartbeat of worker w was {late_or_again}"),
        ("error", "replayed", "a message of worker w was replayed"),
    ]
    assert reader.open(said(replace(BEAT, sequence=200, stage=MemberState.LEFT), stored=late)) is not None


def test_our_own_heartbeats_come_back_after_any_outage() -> None:
    """Those written first afterwards name an echo from before; copies of them count as little as others do."""
    reader = Inbox(("g",), SECRET, patience=10.0, own="i")
    late = 1_000_000 + 60_000
    assert reader.open(said(replace(BEAT, sequence=1), stored=late)) is not None
    assert reader.open(said(replace(BEAT, sequence=1), stored=late)) is None
    assert reader.open(said(replace(BEAT, incarnation="of another", sequence=1), stored=late)) is None
    assert reader.ignored == {"replayed": 1, "stale": 1}


def test_records_published_again_are_believed() -> None:
    """By a worker that has started again, as its earlier process wrote them, by another one: versions decide."""
    reader = inbox()
    key, value = VALUES[Kind.TASK]
    record = Record(Kind.TASK, key, Version(3, "w"), value)
    for author in (Author("g", "w", "one"), Author("g", "w", "two"), Author("g", "x", "three")):
        counters = itertools.count(1)
        for _ in range(2):
            (body,) = write_records(author, counters, [record])
            signed = SECRET.sign("control", "g", body)
            opened = reader.open(LogMessage(CONTROL, signed, 1))
            assert opened is not None
            assert opened.records() == ([record], [])
            assert reader.open(LogMessage(CONTROL, signed, 1)) is None
    assert reader.ignored == {"replayed": 6}


@pytest.mark.parametrize(
    ("signer", "body", "reason"),
    [
        (SECRET, said(BEAT, signer=Signer()).body, "unsigned"),
        (SECRET, said(BEAT, signer=Signer("x" * 32)).body, "wrong_signature"),
        (SECRET, said(BEAT, queue=CONTROL).body, "wrong_signature"),
        (SECRET, b"\xff", "unreadable"),
        (SECRET, b'{"group": "g"}', "unreadable"),
        (SECRET, SECRET.sign("online", "g", b'{"version": 2}'), "newer"),
        (Signer(), b'{"version": 2}', "newer"),
    ],
)
def test_what_is_not_believed_is_counted_and_logged_rarely(signer: Signer, body: bytes, reason: str) -> None:
    reader = inbox(signer)
    with capture_logs() as logs:
        for _ in range(50):
            assert reader.open(LogMessage(ONLINE, body, 1)) is None
    assert reader.ignored == {reason: 50}
    assert [entry["kind"] for entry in logs] == [reason]


def test_other_groups_are_none_of_our_business() -> None:
    """Whether they sign or not."""
    reader = inbox()
    for signer in (Signer(), SECRET, Signer("x" * 32)):
        body = signer.sign("online", "other", write_heartbeat("other", BEAT))
        assert reader.open(LogMessage(ONLINE, body, 1)) is None
    assert reader.ignored == {}


def test_without_a_secret_signed_messages_are_believed_and_that_is_said_once() -> None:
    """So a rolling introduction is possible; the counters and times in them prove nothing here."""
    reader = inbox(Signer())
    with capture_logs() as logs:
        for _ in range(3):
            assert reader.open(said(BEAT, stored=9_000_000)) is not None
    assert [entry["event"] for entry in logs] == ["signatures of control messages are not verified"]
    assert reader.ignored == {}


def test_while_the_secret_is_introduced_both_are_believed() -> None:
    accepting = inbox(Signer(SECRET.secret, accepts_unsigned=True))
    assert accepting.open(said(BEAT, signer=Signer())) is not None
    assert accepting.open(said(BEAT)) is not None
    assert accepting.open(said(BEAT, signer=Signer("x" * 32))) is None
    assert accepting.ignored == {"wrong_signature": 1}


def test_unsigned_counters_cannot_shut_out_the_real_ones() -> None:
    accepting = inbox(Signer(SECRET.secret, accepts_unsigned=True))
    assert accepting.open(said(replace(BEAT, sequence=2**60), signer=Signer())) is not None
    assert accepting.open(said(BEAT)) is not None


def own(signer: Signer, *, stored: int, reader: Inbox) -> None:
    """A heartbeat of our own comes back."""
    opened = reader.open(said(replace(BEAT, incarnation="own", sequence=stored), signer=signer, stored=stored))
    assert opened is not None


@pytest.mark.parametrize("other", [Signer("t" * 32), Signer()], ids=["another secret", "none"])
def test_workers_that_sign_otherwise_are_heard(monkeypatch: pytest.MonkeyPatch, other: Signer) -> None:
    """By the broker's clock: what another secret has signed long before our own heartbeat says nothing of now."""
    reader = Inbox(("g",), SECRET, patience=10.0, own="own")
    assert reader.open(said(BEAT, signer=other, stored=1_000_000)) is None
    assert not reader.hears_other_secret, "nobody knows yet when that was"
    own(SECRET, stored=1_010_000, reader=reader)
    assert reader.hears_other_secret
    own(SECRET, stored=1_010_001, reader=reader)
    assert not reader.hears_other_secret
    reader.open(said(BEAT, signer=other, stored=1_010_500))
    assert reader.hears_other_secret
    read = module.now()
    monkeypatch.setattr(module, "now", lambda: read + 11.0)
    assert not reader.hears_other_secret, "that broker may have shown nothing since"
    assert not inbox().hears_other_secret


def test_other_groups_have_secrets_of_their_own() -> None:
    reader = Inbox(("g",), SECRET, patience=10.0, own="own")
    own(SECRET, stored=1_000_000, reader=reader)
    body = Signer("t" * 32).sign("online", "h", write_heartbeat("h", BEAT))
    assert reader.open(LogMessage(ONLINE, body, 1_000_001)) is None
    assert not reader.hears_other_secret
