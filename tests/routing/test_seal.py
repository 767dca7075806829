"""Seals: what is of our batches is proved by them, whatever others write."""

from __future__ import annotations

import pytest

from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import ORIGIN, SOURCE, Provenance, read
from replicator.routing.seal import Extent, Sealer, Seals

SEALER = Sealer("a secret of the group, long enough", "west")


def stored(at: int, source: int, seal: bytes = b"", *, newer: int = 0) -> StoredMessage:
    """A copy at target offset `at` of the source's message at `source`."""
    raw = ORIGIN + b"\x01east\x02" + place(source, newer) + seal + b"KEYS\x01k\x02"
    return StoredMessage(at, 0, 0, 0, 0, 0, 0, b"\x00\x00\x00\x00", raw)


def place(source: int, newer: int = 0) -> bytes:
    return SOURCE + b"\x01" + value(source, newer) + b"\x02"


def value(source: int, newer: int = 0) -> bytes:
    return b"east/east-a/3/%d/%d" % (source, 1000 + source + newer)


def seal(first: int, last: int, count: int, by: Sealer = SEALER, topic: str = "orders") -> bytes:
    return by.seal(topic, value(first), Extent(last, count, 1000 + last))


def proved(messages: list[StoredMessage], sealer: Sealer | None = SEALER) -> list[int]:
    """Target offsets of those of `messages` that are ours."""
    seals = Seals(sealer, "orders")
    return [each.queue_offset for each in messages if seals.prove(each, found(each))]


def found(message: StoredMessage) -> Provenance:
    provenance = read(message.properties)
    assert provenance is not None
    return provenance


def test_a_batch_is_proved_as_a_whole_and_no_more() -> None:
    """Filters leave gaps in the source's offsets; what comes behind the batch is nobody's."""
    batch = [stored(10, 5, seal(5, 9, 3)), stored(11, 7), stored(12, 9)]
    assert proved([*batch, stored(13, 10)]) == [10, 11, 12]
    assert proved([stored(9, 4), *batch]) == [10, 11, 12]


def test_a_part_of_a_batch() -> None:
    """A broker that lost its tail may have lost the rest of it; others cannot put a later copy in its place."""
    assert proved([stored(10, 5, seal(5, 9, 3)), stored(11, 10)]) == [10]
    assert proved([stored(11, 7), stored(12, 9)]) == []


def test_a_batch_that_somebody_writes_again() -> None:
    """What he puts in the place of its other messages is nobody's, unless it could be of that batch."""
    batch = [stored(10, 5, seal(5, 9, 3)), stored(11, 7), stored(12, 9)]
    again = stored(20, 5, seal(5, 9, 3))
    assert proved([*batch, again, stored(21, 9, newer=10**12)]) == [10, 11, 12, 20]
    assert proved([*batch, again, stored(21, 5), stored(22, 4)]) == [10, 11, 12, 20]
    assert proved([*batch, again, stored(21, 8)]) == [10, 11, 12, 20, 21]


@pytest.mark.parametrize(
    "forged",
    [
        seal(5, 5, 1, Sealer("another secret, as long as the first", "west")),
        seal(5, 5, 1, Sealer(SEALER.secret, "north")),
        seal(5, 5, 1, topic="payments"),
        seal(4, 5, 1),
        seal(5, 5, 1).replace(b"5/1/1005/", b"9/9/1009/"),
        b"__RPL_SEAL\x01\x02",
        b"__RPL_SEAL\x01x/y/z/h\x02",
        b"",
    ],
    ids=["secret", "cluster", "topic", "message", "extent", "empty", "odd", "none"],
)
def test_what_proves_nothing(forged: bytes) -> None:
    """Another secret, a batch for elsewhere, a seal of another message, or none."""
    assert proved([stored(10, 5, forged)]) == []


def test_where_no_seal_is_wanted() -> None:
    """Without a secret, and while workers get it one by one."""
    lenient = Sealer(SEALER.secret, SEALER.target, accepts_unsealed=True)
    assert proved([stored(10, 5)], None) == [10]
    assert proved([stored(10, 5)], lenient) == [10]


def test_a_released_message_is_proved_by_what_it_is() -> None:
    """Which parked message, and which UNIQ_KEY; to another cluster, or with another secret, it proves nothing."""
    raw = b"__RPL_RELEASED\x01east/timer/a/0/8/1\x02UNIQ_KEY\x01AB\x02"
    sealed = SEALER.seal_release(b"east/timer/a/0/8/1", b"AB") + raw
    assert SEALER.proves_release(sealed, b"east/timer/a/0/8/1", b"AB")
    for parked, unique in (
        (b"east/timer/a/0/9/1", b"AB"),
        (b"east/timer/a/0/8/1", b"AC"),
        (b"east/timer/a/0/8/1\nA", b"B"),
    ):
        assert not SEALER.proves_release(sealed, parked, unique)
    for other in (Sealer(SEALER.secret, "north"), Sealer("another secret, as long as the first", "west")):
        assert not other.proves_release(sealed, b"east/timer/a/0/8/1", b"AB")
    assert not SEALER.proves_release(raw, b"east/timer/a/0/8/1", b"AB")
    lenient = Sealer(SEALER.secret, SEALER.target, accepts_unsealed=True)
    assert lenient.proves_release(raw, b"east/timer/a/0/8/1", b"AB")


def test_the_secret_is_not_shown() -> None:
    """Options that have it are logged and sent to Spark's executors."""
    assert SEALER.secret not in repr(SEALER)
