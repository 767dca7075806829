"""Copies are ours or not, however many parts their queue is read in."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replicator.connector.delivered_copies import Acknowledged, Copies
from replicator.protocol.message import StoredMessage
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.provenance import Provenance, read
from replicator.routing.queue_map import Queue
from replicator.routing.seal import Extent, Sealer, Seals

SEALER = Sealer("a secret of the group, long enough", "west")
SOURCE = Queue("a", 0)


def stored(at: int, source: int, seal: bytes = b"", *, broker: str = "a") -> StoredMessage:
    raw = b"__RPL_ORIGIN\x01e\x02__RPL_SOURCE\x01e/%b/0/%d/7\x02" % (broker.encode(), source) + seal
    return StoredMessage(at, 0, 0, 0, 9, 0, 0, bytes(4), raw)


def named(message: StoredMessage) -> Provenance:
    found = read(message.properties)
    assert found is not None
    return found


@st.composite
def queues(draw: st.DrawFn) -> list[StoredMessage]:
    """Batches of ours, filtered perhaps, and what others have put between them."""
    found: list[StoredMessage] = []
    source = 0
    for length in draw(st.lists(st.integers(0, 6), max_size=8)):
        if not length:
            found.append(stored(len(found), draw(st.integers(0, 60))))
            continue
        batch = [source := source + draw(st.integers(1, 3)) for _ in range(length)]
        seal = SEALER.seal("T", b"e/a/0/%d/7" % batch[0], Extent(batch[-1], length, 7))
        found += [stored(len(found) + i, each, b"" if i else seal) for i, each in enumerate(batch)]
    return found


def ours(queue: list[StoredMessage], cuts: list[int], acknowledged: Acknowledged | None = None) -> list[int]:
    """Target offsets of what is ours in a queue that is read backwards, in parts between `cuts`."""
    copies, found = Copies(SEALER, "T", acknowledged), list[bytes]()
    bounds = sorted({0, len(queue), *(min(cut, len(queue)) for cut in cuts)})
    for start, stop in reversed([*pairwise(bounds)]):
        copies.begin_part()
        for message in queue[start:stop]:
            print_ = b"%d" % message.queue_offset
            if copies.take(message, named(message), print_):
                found.append(print_)
        found += copies.end_part()
    return sorted(map(int, found))


@given(queues(), st.lists(st.integers(0, 50), max_size=6))
def test_in_parts_as_in_one(queue: list[StoredMessage], cuts: list[int]) -> None:
    seals = Seals(SEALER, "T")
    whole = [message.queue_offset for message in queue if seals.prove(message, named(message))]
    assert ours(queue, cuts) == whole
    assert ours(queue, []) == whole


def test_what_was_acknowledged_is_ours_at_its_place() -> None:
    """Whether it has a seal or not; what the group knows nothing of, before and after, needs one."""
    known = Acknowledged(SOURCE, OffsetMap([Interval(10, 2, 3)]))
    sealed = SEALER.seal("T", b"e/a/0/13/7", Extent(13, 1, 7))
    queue = [
        stored(0, 9),
        stored(1, 10),
        *(stored(at, 8 + at) for at in (2, 3, 4)),
        stored(5, 11, SEALER.seal("T", b"e/a/0/11/7", Extent(11, 1, 7))),
        stored(6, 11, broker="b"),
        stored(7, 13, sealed),
        stored(8, 14),
    ]
    assert ours(queue, [], known) == [2, 3, 4, 7]
    assert ours(queue, [3, 6], known) == [2, 3, 4, 7]
    assert ours(queue, [], Acknowledged(SOURCE, OffsetMap())) == [5, 7]


def test_how_far_back_the_seal_of_something_may_be() -> None:
    copies = Copies(SEALER, "T", None)
    copies.begin_part()
    assert not copies.take(stored(20_000, 5), named(stored(0, 5)), b"print")
    assert copies.end_part() == []
    assert copies.may_be_proved_from(20_000)
    assert copies.may_be_proved_from(10_001)
    assert not copies.may_be_proved_from(10_000)
    copies.begin_part()
    copies.take(stored(1, 5, b"__RPL_SEAL\x01x/y/z\x02"), named(stored(1, 5)), None)
    assert copies.end_part() == []
    assert copies.may_be_proved_from(10_001), "that was not a seal"


def test_without_a_secret_all_are() -> None:
    for sealer in (None, Sealer(SEALER.secret, SEALER.target, accepts_unsealed=True)):
        copies = Copies(sealer, "T", Acknowledged(SOURCE, OffsetMap([Interval(0, 0, 9)])))
        copies.begin_part()
        assert copies.take(stored(5, 3), named(stored(5, 3)), b"print")
        assert copies.end_part() == []
        assert not copies.may_be_proved_from(1)
