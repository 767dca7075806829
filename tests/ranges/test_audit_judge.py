"""The kind of each difference, told from the messages of both sides."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from replicator.protocol.message import StoredMessage
from replicator.ranges.audit_judge import Wanted, judge
from replicator.routing.body_compression import BodyCompression
from replicator.routing.provenance import Stamp, retried
from replicator.routing.single_send import without_delay
from tests.ranges.target_queue import QUEUE, message

MESSAGES = [message(i, body=b"body%d" % i) for i in range(10)]


def copies(messages: Sequence[StoredMessage] = MESSAGES, *, broker: str = "a") -> list[StoredMessage]:
    """At the target, from offset 100 on."""
    stamped = Stamp("east", broker, 0).put(messages)
    return [
        msgspec.structs.replace(each, queue_offset=100 + i, properties=raw)
        for i, (each, raw) in enumerate(zip(messages, stamped, strict=True))
    ]


def found(there: Sequence[StoredMessage], *, placed: bool = True) -> list[tuple[str, int | None, int | None]]:
    wanted = [Wanted(i, 100 + i if placed else None, each) for i, each in enumerate(MESSAGES)]
    return [each[:3] for each in judge("east", QUEUE, wanted, there, topic="t")]


@pytest.mark.parametrize("placed", [True, False])
def test_all_is_well(*, placed: bool) -> None:
    """Messages of others do not count."""
    assert found(copies(), placed=placed) == []
    somebodys = msgspec.structs.replace(message(0), queue_offset=110)
    assert found([*copies(), somebodys], placed=placed) == []


@pytest.mark.parametrize(
    ("part", "value", "kind"),
    [
        ("body", b"\0\0\0\5BODY3", "body"),
        ("body_crc", 1, "body"),
        ("flag", 8, "flag"),
        ("sys_flag", 1, "header"),
        ("reconsume_times", 2, "header"),
    ],
)
def test_a_changed_part(part: str, value: object, kind: str) -> None:
    """Also a checksum that does not fit, though the body may be as it was."""
    there = copies()
    there[3] = msgspec.structs.replace(there[3], **{part: value})
    assert found(there) == [(kind, 3, 103)]


def test_a_body_that_was_compressed_on_its_way_is_the_same() -> None:
    """But not one that says something else, nor one that its producer had compressed otherwise."""
    text = b"compress me " * 100
    sent, other = message(3, body=text), message(3, body=text.upper())
    for kind in ("zlib", "zstd"):
        pack = BodyCompression(kind, 1)
        for packed, kinds in ((pack(sent), []), (pack(other), ["body"])):
            wanted = [Wanted(3, 100, sent)]
            there = copies([packed])
            assert [each.kind for each in judge("east", QUEUE, wanted, there, topic="t")] == kinds
    by_producer = BodyCompression("zlib", 1)(sent)
    there = copies([BodyCompression("zstd", 1)(sent)])
    found = judge("east", QUEUE, [Wanted(3, 100, by_producer)], there, topic="t")
    assert [each.kind for each in found] == ["body", "header"]


@pytest.mark.parametrize("placed", [True, False])
def test_places(*, placed: bool) -> None:
    """Where it is known what was stored where, both of two that were swapped are named."""
    there = copies([*MESSAGES[:3], MESSAGES[4], MESSAGES[3], *MESSAGES[5:]])
    assert found(there, placed=placed) == [("reordered", 3, 104), *([("reordered", 4, 103)] if placed else [])]


def test_twins_and_strangers() -> None:
    """Copies that nobody sent: again, of nothing, of what came before, and of another queue."""
    there = copies([*MESSAGES, MESSAGES[2], message(20)])
    there += [msgspec.structs.replace(each, queue_offset=112) for each in copies(MESSAGES[:1], broker="b")]
    assert found(there) == [("duplicate", 2, 110), ("unknown", 20, 111), ("misplaced", None, 112)]
    wanted = [Wanted(i, None, MESSAGES[i]) for i in range(5, 10)]
    assert [each[:3] for each in judge("east", QUEUE, wanted, copies(MESSAGES[4:]), topic="t")] == [
        ("duplicate", 4, 100)
    ]


def test_what_a_copy_says_of_itself_proves_nothing_of_others() -> None:
    """One names an offset that the source does not have, one a message that was stored at another time."""
    far, other = message(999_999), msgspec.structs.replace(MESSAGES[8], store_timestamp=77)
    there = copies([*MESSAGES[:3], far, other, *MESSAGES[5:]])
    kinds = ["missing", "missing", "duplicate", "stale", "unknown"]
    assert [each[0] for each in found(there, placed=False)] == kinds


def test_without_the_message() -> None:
    """Of what the source no longer has, place and checksum are judged."""
    wanted = [Wanted(i, 100 + i, None) for i in range(10)]
    there = copies()
    there[3] = msgspec.structs.replace(there[3], flag=8)
    assert judge("east", QUEUE, wanted, there, topic="t") == []
    there[4] = msgspec.structs.replace(there[4], body=b"\0\0\0\5BODY4")
    del there[7]
    assert [each[:3] for each in judge("east", QUEUE, wanted, there, topic="t")] == [
        ("body", 4, 104),
        ("missing", 7, 107),
    ]


def test_what_readers_get_in_another_order() -> None:
    """Though each message says where it belongs: two that have changed places, or one that is read twice."""
    there = copies()
    there[3], there[7] = there[7], there[3]
    assert found(there) == [("reordered", 3, 103), ("reordered", 7, 107)]
    for lost, kept in ((3, 7), (7, 3)):
        there = copies()
        there[lost] = there[kept]
        assert found(there) == sorted(
            [("missing", lost, 100 + lost), ("duplicate", kept, 100 + kept)], key=lambda each: each[1]
        )


def test_a_message_to_be_consumed_again_has_no_delay_at_the_target() -> None:
    """In a group's retry topic; anywhere else a property that is gone is a difference."""
    delayed = message(0, properties=b"DELAY\x013\x02KEYS\x01k\x02")
    (copy,) = copies([delayed])
    raw = retried(without_delay(copy.properties), delayed.reconsume_times)
    there = [msgspec.structs.replace(copy, properties=raw)]
    wanted = [Wanted(0, 100, delayed)]
    assert judge("east", QUEUE, wanted, there, topic="%RETRY%g") == []
    assert [each[:3] for each in judge("east", QUEUE, wanted, there, topic="t")] == [("properties", 0, 100)]


def test_what_a_group_gave_up_at_the_target_is_no_copy() -> None:
    """Though the broker has put all properties of the copy that it failed on into the dead letter."""
    letter = message(0, properties=b"DELAY\x010\x02KEYS\x01k\x02")
    (copy,) = copies([letter])
    sent = msgspec.structs.replace(copy, properties=retried(copy.properties, letter.reconsume_times))
    of_a_copy = msgspec.structs.replace(copy, queue_offset=101, reconsume_times=1)
    wanted = [Wanted(0, 100, letter)]
    assert judge("east", QUEUE, wanted, [sent, of_a_copy], topic="%DLQ%g") == []
    assert judge("east", QUEUE, wanted, [sent, of_a_copy], topic="t") != []
