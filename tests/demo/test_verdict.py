"""The demo's judgement, on topics made by hand: it finds what it says it looks for."""

from __future__ import annotations

from collections.abc import Iterable

from replicator.demo.verdict import Judge, Verdict
from replicator.protocol.message import StoredMessage
from replicator.routing.message_queue import MessageQueue
from replicator.routing.provenance import Stamp

A, B = MessageQueue("orders", "east-a", 0), MessageQueue("orders", "east-a", 1)
OURS = MessageQueue("orders", "west-a", 0)


def message(offset: int, body: bytes, properties: bytes) -> StoredMessage:
    return StoredMessage(offset, 0, 0, 0, 0, 0, 0, len(body).to_bytes(4) + body, properties)


def original(queue: MessageQueue, offset: int) -> StoredMessage:
    return message(offset, b"%d/%d" % (queue.queue_id, offset), b"KEYS\x01k%d\x02" % offset)


def copy(of: tuple[MessageQueue, int], offset: int, *, body: bytes | None = None) -> StoredMessage:
    queue, source_offset = of
    source = original(queue, source_offset)
    (stamped,) = Stamp("east", queue.broker, queue.queue_id).put([source])
    properties = stamped + b"CLUSTER\x01west\x02"
    return message(offset, source.body[4:] if body is None else body, properties)


def judged(
    *copies: tuple[MessageQueue, int],
    into: MessageQueue = OURS,
    more: Iterable[tuple[MessageQueue, StoredMessage]] = (),
) -> Verdict:
    """Five messages in A, from offset 3 on, and one in B, against `copies` in one queue, and `more`."""
    judge = Judge()
    for offset in range(3, 8):
        judge.take_source(A, original(A, offset))
    judge.take_source(B, original(B, 0))
    for offset, of in enumerate(copies):
        judge.take_target(into, copy(of, offset))
    for place, found in more:
        judge.take_target(place, found)
    return judge.verdict()


WHOLE = tuple((A, offset) for offset in range(3, 8))
B_IN_ITS_OWN = (MessageQueue("orders", "west-a", 1), copy((B, 0), 0))


def test_everything_once_and_in_order() -> None:
    verdict = judged(*WHOLE, more=[B_IN_ITS_OWN])
    assert verdict == Verdict(sources=6, copied=6)
    assert verdict.clean


def test_lost() -> None:
    verdict = judged(*WHOLE[:2], *WHOLE[3:], more=[B_IN_ITS_OWN])
    assert verdict == Verdict(sources=6, copied=5, lost=1)
    assert not verdict.clean


def test_nothing_arrived() -> None:
    assert judged() == Verdict(sources=6, lost=6)


def test_duplicated_is_not_out_of_order() -> None:
    verdict = judged(*WHOLE, WHOLE[1], WHOLE[1], more=[B_IN_ITS_OWN])
    assert verdict == Verdict(sources=6, copied=6, duplicated=2)
    assert not verdict.clean


def test_out_of_order() -> None:
    verdict = judged(*WHOLE[1:], WHOLE[0], more=[B_IN_ITS_OWN])
    assert verdict == Verdict(sources=6, copied=6, out_of_order=1)
    assert not verdict.clean


def test_a_queue_split_in_two_has_lost_its_order() -> None:
    verdict = judged(*WHOLE[:4], more=[B_IN_ITS_OWN, (MessageQueue("orders", "west-a", 2), copy(WHOLE[4], 0))])
    assert verdict == Verdict(sources=6, copied=6, out_of_order=1)


def test_changed() -> None:
    verdict = judged(*WHOLE[:4], more=[B_IN_ITS_OWN, (OURS, copy(WHOLE[4], 4, body=b"else"))])
    assert verdict == Verdict(sources=6, copied=6, changed=1)
    assert not verdict.clean


def test_foreign() -> None:
    strangers = [
        message(5, b"", b""),
        copy((A, 8), 6),
        copy((A, 2), 7),
        copy((MessageQueue("orders", "east-b", 0), 3), 8),
    ]
    verdict = judged(*WHOLE, more=[B_IN_ITS_OWN, *((OURS, stranger) for stranger in strangers)])
    assert verdict == Verdict(sources=6, copied=6, foreign=4)
    assert not verdict.clean
